package hub

// Uploading a folder: plan, ask, send. The plan reads every file and compares its sum with the
// repository's list, so a person sees what is new and what would be replaced before anything is
// sent. Then large files go to the hub's storage (lfs.go), which forgets none that it has. One
// commit (commit.go) makes all files visible at once. It names the commit that the plan has seen as
// its parent: if somebody else has changed the repository, the hub refuses it.
//
// An upload that was stopped is run again. Files that the storage has by their hash are not sent
// twice, and of a file in parts only the missing ones are (uploadrecord.go).

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

// UploadJob is the kind of a job that uploads. The server starts none.
const UploadJob jobs.Kind = "upload"

// UploadRequest selects what to upload, and where to.
type UploadRequest struct {
	ID     string // "org/name"
	Dir    string // folder of a model or an adapter
	Public bool   // makes a new repository public; otherwise it is private
}

// UploadState says what an upload does to a file of the repository.
type UploadState string

// The states of files.
const (
	FileNew      UploadState = "new"      // the repository has no file of this path
	FileReplaced UploadState = "replaced" // it has another one
	FileSame     UploadState = "same"     // it has the same one, which is not sent
)

// UploadFile is a file of a plan.
type UploadFile struct {
	Path  string
	Size  int64
	State UploadState
	local *localFile
}

// UploadPlan says what an upload will do.
type UploadPlan struct {
	ID      string
	Create  bool // the repository does not exist yet
	Private bool // it is private, or will be
	Files   []UploadFile
	// Left are visible files of the repository that the folder does not have. They stay.
	Left []string
	// Hidden are files and folders that are not sent.
	Hidden []string

	parent string // the commit that was compared; "": Create
}

// Count returns the number and the size of the files in a state.
func (p *UploadPlan) Count(s UploadState) (files int, bytes int64) {
	for _, f := range p.Files {
		if f.State == s {
			files++
			bytes += f.Size
		}
	}
	return files, bytes
}

// LeftWeights returns the files of Left that programs would load together with the new weights.
func (p *UploadPlan) LeftWeights() []string {
	return slices.DeleteFunc(slices.Clone(p.Left), func(name string) bool {
		return !isWeightsName(name)
	})
}

// CanUpload checks, before hours of other work, that the hub accepts the token and that id is a
// name. The error is a Problem, or ctx's.
func (c *Client) CanUpload(ctx context.Context, id string) error {
	if err := CheckID(id); err != nil {
		return err
	}
	return c.checkToken(ctx)
}

// PlanUpload compares a folder with a repository, which need not exist. It sends nothing but
// questions. The error is a Problem, or ctx's.
func (c *Client) PlanUpload(ctx context.Context, q UploadRequest,
	p *jobs.Progress) (*UploadPlan, error) {
	if err := CheckID(q.ID); err != nil {
		return nil, err
	}
	files, hidden, err := folderFiles(q.Dir) // its faults need neither a token nor the hub
	if err != nil {
		return nil, err
	}
	p.Phase("asking the hub", "")
	if err := c.checkToken(ctx); err != nil {
		return nil, err
	}
	there, exists, err := c.uploadTarget(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	if err := c.hashFiles(ctx, files, p); err != nil {
		return nil, err
	}
	plan := &UploadPlan{ID: q.ID, Create: !exists, Private: !q.Public, Hidden: hidden}
	if exists {
		plan.Private, plan.parent = there.Private, there.Commit
	}
	plan.compare(files, there.Files)
	return plan, nil
}

// uploadTarget returns the repository, if it exists.
func (c *Client) uploadTarget(ctx context.Context, id string) (r Repository, exists bool,
	err error) {
	r, err = c.repository(ctx, fewFailures, id, "")
	if err == nil {
		return r, true, nil
	}
	if ctx.Err() == nil && problem.From(err).Code == problem.NotFound {
		return Repository{}, false, nil
	}
	return r, false, resumable(err)
}

// compare fills Files and Left.
func (p *UploadPlan) compare(files []*localFile, there []File) {
	known := map[string]File{}
	for _, f := range there {
		known[f.Path] = f
	}
	for _, f := range files {
		state := FileNew
		if now, ok := known[f.path]; ok {
			delete(known, f.path)
			if state = FileReplaced; f.is(now) {
				state = FileSame
			}
		}
		p.Files = append(p.Files, UploadFile{f.path, f.size, state, f})
	}
	for _, f := range there {
		if _, ok := known[f.Path]; ok && f.Path[0] != '.' {
			p.Left = append(p.Left, f.Path)
		}
	}
}

// Uploaded is the result of an upload.
type Uploaded struct {
	Address string   // of the commit; "": nothing was to be sent
	Sent    int64    // bytes of files that this run has sent
	Ignored []string // files that the repository's .gitignore excludes
}

// upload is a running upload.
type upload struct {
	client   *Client
	plan     *UploadPlan
	progress *jobs.Progress
	record   *uploadRecord
	regular  []*localFile // of the commit itself
	large    []*localFile // of LFS
	done     Uploaded
}

// Upload does what a plan says. An upload that is stopped keeps what it has sent: plan it again to
// go on. The error is a Problem, or ctx's.
func (c *Client) Upload(ctx context.Context, plan *UploadPlan, p *jobs.Progress) (Uploaded,
	error) {
	u := &upload{client: c, plan: plan, progress: p}
	if sent, _ := plan.Count(FileSame); sent == len(plan.Files) && !plan.Create {
		return u.done, nil
	}
	steps := []func(context.Context) error{u.create, u.sort, u.sendLarge, u.commit}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return Uploaded{}, resumable(err)
		}
	}
	return u.done, nil
}

// changes returns the files to send.
func (u *upload) changes() (files []*localFile) {
	for _, f := range u.plan.Files {
		if f.State != FileSame {
			files = append(files, f.local)
		}
	}
	return files
}

// sendLarge sends the files of LFS that the hub's storage does not have: small ones concurrently,
// then the large ones one after another, each over several connections.
func (u *upload) sendLarge(ctx context.Context) error {
	total := int64(0)
	for _, f := range append(slices.Clone(u.large), u.regular...) {
		total += f.size
	}
	u.progress.Total(total)
	u.record = openRecord(u.client.options.Uploads, u.client.Endpoint(), u.plan.ID)
	seen := map[string]bool{}
	files := slices.DeleteFunc(slices.Clone(u.large), func(f *localFile) bool {
		if seen[f.sha256] {
			u.progress.Found(f.size) // it goes with the other file of the same content
			return true
		}
		seen[f.sha256] = true
		return false
	})
	for group := range slices.Chunk(files, maxBatch) {
		objects, err := u.batch(ctx, group)
		if err != nil {
			return err
		}
		var small, large []*localFile
		for _, f := range group {
			if objects[f.sha256].Actions.Upload.inParts() {
				large = append(large, f)
			} else {
				small = append(small, f)
			}
		}
		err = u.client.concurrently(ctx, len(small), func(ctx context.Context, i int) error {
			return u.object(ctx, small[i], objects[small[i].sha256])
		})
		if err != nil {
			return err
		}
		for _, f := range large {
			if err := u.object(ctx, f, objects[f.sha256]); err != nil {
				return err
			}
		}
	}
	return nil
}

// asRefused returns the refusal in err, if it is one and no Problem.
func asRefused(err error) (*refusal, bool) {
	var r *refusal
	return r, errors.As(err, &r) && !errors.As(err, new(*problem.Problem))
}

// unreadable returns the Problem of a file that could not be read.
func unreadable(f *localFile, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.BadRequest, err, f.path+" cannot be read",
		fmt.Sprintf("Check the permissions of %s.", f.at))
}
