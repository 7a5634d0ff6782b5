package hub

// What of an upload is not the bytes of large files: the check of the token, the new repository,
// the question which files are large, and the commit. The requests are those of huggingface_hub
// (its hf_api.py and _commit_api.py, version 2.4.0).

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"headroom/engine/problem"
)

// maxAsked is the most files that one question about upload modes may name.
const maxAsked = 256

// commitSummary is the first line of the commit.
const commitSummary = "Upload with Headroom"

// checkToken asks the hub whose token it is. A mirror may not know that question.
func (c *Client) checkToken(ctx context.Context) error {
	if c.options.Token == nil || c.options.Token() == "" {
		return problem.New(problem.Unauthorized, "An upload needs a token of the hub", "", tokenFix)
	}
	if !c.mayHaveToken(c.endpoint) {
		return problem.New(problem.BadRequest, "The token is not sent to "+c.Endpoint(),
			"its address begins with http:// and is not on this computer",
			"Use an address that begins with https://.")
	}
	var answer reply
	err := c.retry(ctx, fewFailures, func() (_ bool, err error) {
		answer, err = c.send(ctx, message{method: "GET", url: c.apiURL("api/whoami-v2")})
		return false, err
	})
	if r, ok := asRefused(err); ok && r.status == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return c.uploadProblem(err, "the hub", "the token")
	}
	var who struct {
		Auth struct {
			AccessToken struct {
				Role string `json:"role"`
			} `json:"accessToken"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(answer.text, &who); err != nil {
		return c.invalid(err)
	}
	if who.Auth.AccessToken.Role == "read" {
		return problem.New(problem.Forbidden, "The token may only read",
			"an upload needs one that may write", tokenFix)
	}
	return nil
}

// create makes the repository, if there is none, and checks that nobody else sees a private one.
func (u *upload) create(ctx context.Context) error {
	if !u.plan.Create {
		return nil
	}
	u.progress.Phase("making the repository", "")
	c, id := u.client, u.plan.ID
	org, name, _ := strings.Cut(id, "/")
	visibility := "public"
	if u.plan.Private {
		visibility = "private"
	}
	_, err := c.deliver(ctx, jsonMessage(c.apiURL("api/repos/create"), map[string]string{
		"name": name, "organization": org, "type": "model", "visibility": visibility}))
	if r, ok := asRefused(err); ok {
		switch r.status {
		case http.StatusForbidden:
			return problem.New(problem.Forbidden, "The token may not make a repository of "+org,
				r.Error(), tokenFix)
		case http.StatusConflict:
			// An earlier try may have made it, whose answer was lost.
			err = nil
		}
	}
	if err != nil {
		return c.uploadProblem(err, id, "the new repository "+id)
	}
	r, exists, err := c.uploadTarget(ctx, id)
	switch {
	case err != nil:
		return err
	case !exists:
		return problem.New(problem.Exists, "A repository "+id+" exists and cannot be seen",
			"the hub refuses to make it, and does not show it to this token",
			"Choose another name, or a token of the account that owns it.")
	case u.plan.Private && !r.Private:
		return problem.New(problem.Upstream, "The repository "+id+" is public",
			"a private one was asked for, and nothing was uploaded",
			"Make it private on its page at the hub, or add --public.")
	case slices.ContainsFunc(r.Files, func(f File) bool { return f.Path[0] != '.' }):
		return changedMeanwhile(id)
	}
	u.plan.Private, u.plan.parent = r.Private, r.Commit
	return nil
}

func changedMeanwhile(id string) error {
	return problem.New(problem.Changed, id+" was changed during the upload",
		"it has files that were not there before",
		"Run the same command again: it says what it would change now.")
}

// sort asks the hub which files are large, and which it ignores.
func (u *upload) sort(ctx context.Context) error {
	u.progress.Phase("asking the hub", "")
	type file struct {
		Path   string `json:"path"`
		Sample []byte `json:"sample"`
		Size   int64  `json:"size"`
	}
	for group := range slices.Chunk(u.changes(), maxAsked) {
		var asked []file
		for _, f := range group {
			sample, err := f.sample()
			if err != nil {
				return unreadable(f, err)
			}
			asked = append(asked, file{f.path, sample, f.size})
		}
		answer, err := u.client.deliver(ctx, jsonMessage(
			u.client.apiURL("api/models/"+u.plan.ID+"/preupload/main"),
			map[string]any{"files": asked}))
		if err != nil {
			return u.client.uploadProblem(err, u.plan.ID, "these files")
		}
		if err := u.place(group, answer.text); err != nil {
			return u.client.invalid(err)
		}
	}
	return nil
}

// place adds files to the large or the regular ones, as the hub says.
func (u *upload) place(files []*localFile, text []byte) error {
	var document struct {
		Files []struct {
			Path         string `json:"path"`
			UploadMode   string `json:"uploadMode"`
			ShouldIgnore bool   `json:"shouldIgnore"`
		} `json:"files"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	for _, f := range files {
		i := 0
		for i < len(document.Files) && document.Files[i].Path != f.path {
			i++
		}
		if i == len(document.Files) {
			return fmt.Errorf("it does not say how to upload %s", f.path)
		}
		switch mode := document.Files[i].UploadMode; {
		case document.Files[i].ShouldIgnore:
			u.done.Ignored = append(u.done.Ignored, f.path)
		case f.size == 0: // the storage takes no empty files
			u.regular = append(u.regular, f)
		case mode == "lfs":
			u.large = append(u.large, f)
		case mode != "regular":
			return fmt.Errorf("it asks for the upload mode %q of %s", mode, f.path)
		case f.size > maxBlobBytes:
			return fmt.Errorf("it wants %s, of %d bytes, in git", f.path, f.size)
		default:
			u.regular = append(u.regular, f)
		}
	}
	return nil
}

// commit makes the files visible.
func (u *upload) commit(ctx context.Context) error {
	c := u.client
	if len(u.regular)+len(u.large) == 0 {
		return nil
	}
	u.progress.Phase("committing", "")
	for _, f := range u.large {
		if err := f.check(); err != nil {
			return err
		}
	}
	text, err := u.commitText()
	if err != nil {
		return err
	}
	m := textMessage(c.apiURL("api/models/"+u.plan.ID+"/commit/main"), "application/x-ndjson", text)
	var answer struct {
		URL    string `json:"commitUrl"`
		Commit string `json:"commitOid"`
	}
	failed := false
	err = c.retry(ctx, maxFailures, func() (bool, error) {
		if failed { // the hub may have made the commit, and its answer was lost
			if made, err := u.committed(ctx); err != nil || made {
				return false, err
			}
		}
		reply, err := c.send(ctx, m)
		if err == nil {
			if json.Unmarshal(reply.text, &answer) == nil && commitForm.MatchString(answer.Commit) {
				return false, nil
			}
			return false, u.confirm(ctx)
		}
		if failed && !errors.As(err, new(*temporary)) {
			// The first try may have been made meanwhile, so that this one has another parent.
			if made, asked := u.committed(ctx); asked == nil && made {
				return false, nil
			}
		}
		failed = true
		return false, err
	})
	if err != nil {
		return c.uploadProblem(err, u.plan.ID, "the commit")
	}
	u.done.Address = c.Endpoint() + "/" + u.plan.ID
	if at, err := url.Parse(answer.URL); err == nil && at.Host == c.endpoint.Host {
		u.done.Address = at.String()
	}
	for _, f := range u.regular {
		u.done.Sent += f.size
		u.progress.Add(f.size)
	}
	u.record.remove()
	return nil
}

// confirm returns an error if the repository does not show the files, after an answer that does not
// name the commit: a proxy may have given it.
func (u *upload) confirm(ctx context.Context) error {
	made, err := u.committed(ctx)
	if made || ctx.Err() != nil {
		return ctx.Err()
	}
	why := "the hub's answer names no commit, and the repository does not show the files"
	if err != nil {
		why = "the hub's answer names no commit, and the repository cannot be read: " + err.Error()
	}
	return problem.New(problem.Upstream, "It is not known whether the files were committed", why,
		"Run the same command again: it sends what the repository lacks. Check the hub's address: "+
			u.client.Endpoint())
}

// commitText returns the body of the commit: a header and one line for each file.
func (u *upload) commitText() ([]byte, error) {
	var text bytes.Buffer
	var failed error
	line := func(key string, value any) {
		document, err := json.Marshal(map[string]any{"key": key, "value": value})
		failed = errors.Join(failed, err)
		text.Write(append(document, '\n'))
	}
	line("header", map[string]string{"summary": commitSummary, "description": "",
		"parentCommit": u.plan.parent})
	for _, f := range u.regular {
		content, err := f.read()
		if err != nil {
			return nil, unreadable(f, err)
		}
		line("file", map[string]string{"path": f.path, "encoding": "base64",
			"content": base64.StdEncoding.EncodeToString(content)})
	}
	for _, f := range u.large {
		line("lfsFile", map[string]any{"path": f.path, "algo": "sha256", "oid": f.sha256,
			"size": f.size})
	}
	return text.Bytes(), failed
}

// committed reports whether the repository has the files of the upload.
func (u *upload) committed(ctx context.Context) (bool, error) {
	r, exists, err := u.client.uploadTarget(ctx, u.plan.ID)
	if err != nil || !exists || r.Commit == u.plan.parent {
		return false, err
	}
	there := map[string]File{}
	for _, f := range r.Files {
		there[f.Path] = f
	}
	for _, f := range append(slices.Clone(u.regular), u.large...) {
		if now, ok := there[f.path]; !ok || !f.is(now) {
			return false, nil
		}
	}
	return true, nil
}
