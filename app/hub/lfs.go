package hub

// Large files go to the hub's storage by Git LFS: github.com/git-lfs/git-lfs/blob/main/docs/api/
// batch.md. A question names the SHA-256 of each file, and the answer says where to put those that
// the storage lacks: in one request ("basic"), or in parts ("multipart", the hub's own: a signed
// address for each part, then a request that lists the parts' etags).
//
// The hub's newer storage, Xet, splits files by their content and takes only chunks that it lacks.
// This package does not speak its protocol. The hub takes LFS uploads for every repository and
// moves the files to Xet itself (huggingface.co/docs/hub/xet/legacy-git-lfs), so the result is the
// same, but a file of which a little has changed is sent whole.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"headroom/engine/problem"
)

const (
	// maxBatch is the most files in one question.
	maxBatch = 256
	// maxParts bounds the parts of a file. S3 has the same limit.
	maxParts = 10_000
	lfsType  = "application/vnd.git-lfs+json"
)

// lfsObject is what the hub says of one file.
type lfsObject struct {
	OID     string `json:"oid"`
	Size    int64  `json:"size"`
	Actions struct {
		Upload *lfsAction `json:"upload"` // nil: the storage has the file
		Verify *lfsAction `json:"verify"` // nil: not needed
	} `json:"actions"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// lfsAction is a request to send. In the header of a multipart upload are chunk_size and the
// addresses of the parts by their numbers, from 1.
type lfsAction struct {
	Href   string              `json:"href"`
	Header map[string]lfsValue `json:"header"`
}

// lfsValue is a text that may come as a number.
type lfsValue string

// UnmarshalJSON implements json.Unmarshaler.
func (v *lfsValue) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err == nil {
		*v = lfsValue(s)
		return nil
	}
	var n json.Number
	err := json.Unmarshal(text, &n)
	*v = lfsValue(n)
	return err
}

func (a *lfsAction) inParts() bool { return a != nil && a.Header["chunk_size"] != "" }

// batch asks for the actions of files, by their SHA-256.
func (u *upload) batch(ctx context.Context, files []*localFile) (map[string]lfsObject, error) {
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	var objects []object
	for _, f := range files {
		objects = append(objects, object{f.sha256, f.size})
	}
	m := jsonMessage(u.client.apiURL(u.plan.ID+".git/info/lfs/objects/batch"), map[string]any{
		"operation": "upload", "transfers": []string{"basic", "multipart"}, "objects": objects,
		"hash_algo": "sha256", "ref": map[string]string{"name": "main"}})
	m.header = http.Header{"Accept": {lfsType}, "Content-Type": {lfsType}}
	answer, err := u.client.deliver(ctx, m)
	if err != nil {
		return nil, u.client.uploadProblem(err, u.plan.ID, files[0].path)
	}
	var document struct {
		Transfer string      `json:"transfer"`
		Objects  []lfsObject `json:"objects"`
	}
	if err := json.Unmarshal(answer.text, &document); err != nil {
		return nil, u.client.invalid(err)
	}
	switch document.Transfer {
	case "", "basic", "multipart":
	default:
		return nil, problem.New(problem.Upstream, "The hub takes large files in another way only",
			fmt.Sprintf("it asks for the transfer %q, and Headroom has basic and multipart",
				oneLine(document.Transfer)), "Upload the folder with Hugging Face's tools.")
	}
	known := map[string]lfsObject{}
	for _, o := range document.Objects {
		known[o.OID] = o
	}
	for _, f := range files {
		if err := u.checkObject(f, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// checkObject checks what the hub says of a file.
func (u *upload) checkObject(f *localFile, known map[string]lfsObject) error {
	o, ok := known[f.sha256]
	switch {
	case !ok:
		return u.client.invalid(fmt.Errorf("it does not say how to upload %s", f.path))
	case o.Error != nil:
		return u.client.uploadProblem(&refusal{status: o.Error.Code,
			message: oneLine(o.Error.Message)}, u.plan.ID, f.path)
	case o.Size != f.size:
		return u.client.invalid(fmt.Errorf("it gives %s a size of %d bytes", f.path, o.Size))
	}
	return nil
}

// object sends a file, unless the storage has it. When the signed addresses expire, it asks for new
// ones.
func (u *upload) object(ctx context.Context, f *localFile, o lfsObject) error {
	counted := u.counterOf(f)
	most := int64(0) // bytes that the storage has had
	for failures := 0; ; {
		if o.Actions.Upload == nil {
			counted.found(f.size)
			u.record.drop(f.sha256)
			return nil
		}
		err := u.attempt(ctx, f, o, counted)
		r, refused := asRefused(err)
		if !refused {
			return err
		}
		if r.status == http.StatusRequestEntityTooLarge {
			return u.client.uploadProblem(err, u.plan.ID, f.path)
		}
		if now := counted.placed.Load(); now > most {
			failures, most = 0, now
		}
		if failures++; failures >= fewFailures {
			return problem.Wrap(problem.Upstream, fmt.Errorf("%w, %d times", r, failures),
				"The hub's storage refuses "+f.path,
				"Run the same command again later. What was uploaded is kept.")
		}
		u.client.log.Warn("an address of the hub's storage is refused; asking for a new one",
			"file", f.path, "err", r)
		objects, err := u.batch(ctx, []*localFile{f})
		if err != nil {
			return err
		}
		o = objects[f.sha256]
	}
}

// attempt sends a file to the addresses of one answer, or of the record of an earlier run. The
// error may be a *refusal: the addresses have expired.
func (u *upload) attempt(ctx context.Context, f *localFile, o lfsObject, counted *placed) error {
	u.progress.Phase("uploading", f.path)
	if err := f.check(); err != nil {
		return err
	}
	var err error
	if o.Actions.Upload.inParts() {
		err = u.multipart(ctx, f, o.Actions.Upload, counted)
	} else {
		err = u.basic(ctx, f, o.Actions.Upload, counted)
	}
	if err == nil && o.Actions.Verify != nil {
		err = u.verify(ctx, f, o.Actions.Verify)
	}
	return err
}

// basic sends a file in one request.
func (u *upload) basic(ctx context.Context, f *localFile, a *lfsAction, counted *placed) error {
	at, err := u.storageURL(a.Href)
	if err != nil {
		return err
	}
	header := http.Header{}
	for name, value := range a.Header {
		header.Set(name, string(value))
	}
	_, err = u.put(ctx, f, at, header, 0, f.size, counted)
	return err
}

// put sends a piece of a file, with retries, and returns the header of the answer.
func (u *upload) put(ctx context.Context, f *localFile, at *url.URL, header http.Header, from,
	size int64, counted *placed) (http.Header, error) {
	file, err := os.Open(f.at)
	if err != nil {
		return nil, unreadable(f, err)
	}
	defer file.Close()
	m := message{method: "PUT", url: at, header: header, size: size, moved: counted.sending,
		body: func() io.Reader { return io.NewSectionReader(file, from, size) }}
	var answer reply
	err = u.client.retry(ctx, maxFailures, func() (bool, error) {
		err := f.check()
		if err == nil {
			answer, err = u.client.send(ctx, m)
		}
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return answer.header, nil
}

// storageURL parses an address of the hub's storage.
func (u *upload) storageURL(text string) (*url.URL, error) {
	at, err := u.client.endpoint.Parse(text)
	if err == nil && (at.Host == "" || at.Scheme != "https" &&
		at.Scheme != u.client.endpoint.Scheme) {
		err = errors.New("its storage has no https address")
	}
	if err != nil {
		return nil, u.client.invalid(withoutAddress(err))
	}
	return at, nil
}

// multipart sends the missing parts of a file, and puts them together.
func (u *upload) multipart(ctx context.Context, f *localFile, a *lfsAction,
	counted *placed) error {
	parts, err := partsOf(f, a)
	if err != nil {
		return u.client.invalid(err)
	}
	answered := parts
	if earlier := u.record.find(f.sha256); earlier != nil {
		parts = parts.resume(earlier)
	}
	counted.found(parts.have())
	err = u.sendParts(ctx, f, parts, counted)
	counted.placed.Store(parts.have())
	if err == nil {
		err = u.complete(ctx, f, parts)
		if _, refused := asRefused(err); refused && parts == answered {
			return u.client.uploadProblem(err, u.plan.ID, f.path)
		}
	}
	if _, refused := asRefused(err); refused {
		// The next attempt begins with new addresses, and keeps the parts if they are of the same
		// upload.
		counted.settle(0)
		u.record.expire(f.sha256)
		return err
	}
	if err == nil {
		u.record.drop(f.sha256)
	}
	return err
}

// partsOf returns the parts of an answer.
func partsOf(f *localFile, a *lfsAction) (*multipart, error) {
	chunk, err := strconv.ParseInt(string(a.Header["chunk_size"]), 10, 64)
	if err != nil || chunk <= 0 {
		return nil, fmt.Errorf("it names parts of %q bytes", a.Header["chunk_size"])
	}
	p := &multipart{OID: f.sha256, Size: f.size, Chunk: chunk, Complete: a.Href}
	n := p.count()
	if n > maxParts {
		return nil, fmt.Errorf("it splits %s into %d parts", f.path, n)
	}
	for i := range n {
		at, ok := a.Header[strconv.FormatInt(i+1, 10)]
		if !ok {
			// The hub writes some numbers with leading zeros.
			at, ok = a.Header[fmt.Sprintf("%05d", i+1)]
		}
		if !ok {
			return nil, fmt.Errorf("it has no address for part %d of %d of %s", i+1, n, f.path)
		}
		p.Parts = append(p.Parts, string(at))
	}
	p.Etags = make([]string, n)
	return p, nil
}

// sendParts sends the parts without an etag, a few at a time.
func (u *upload) sendParts(ctx context.Context, f *localFile, p *multipart,
	counted *placed) error {
	var missing []int64
	for i, etag := range p.Etags {
		if etag == "" {
			missing = append(missing, int64(i))
		}
	}
	return u.client.concurrently(ctx, len(missing), func(ctx context.Context, k int) error {
		i := missing[k]
		at, err := u.storageURL(p.Parts[i])
		if err != nil {
			return err
		}
		from := i * p.Chunk
		header, err := u.put(ctx, f, at, nil, from, min(p.Chunk, f.size-from), counted)
		if err != nil {
			return err
		}
		etag := header.Get("ETag")
		if etag == "" || len(etag) > 200 {
			return u.client.invalid(fmt.Errorf("its storage gives part %d of %s the etag %q", i+1,
				f.path, oneLine(etag)))
		}
		u.record.part(p, i, etag)
		return nil
	})
}

// complete puts the parts together.
func (u *upload) complete(ctx context.Context, f *localFile, p *multipart) error {
	at, err := u.storageURL(p.Complete)
	if err != nil {
		return err
	}
	type part struct {
		Number int    `json:"partNumber"`
		Etag   string `json:"etag"`
	}
	var parts []part
	for i, etag := range p.Etags {
		parts = append(parts, part{i + 1, etag})
	}
	m := jsonMessage(at, map[string]any{"oid": f.sha256, "parts": parts})
	m.header = http.Header{"Accept": {lfsType}, "Content-Type": {lfsType}}
	_, err = u.client.deliver(ctx, m)
	return err
}

// verify asks whether the storage has the file.
func (u *upload) verify(ctx context.Context, f *localFile, a *lfsAction) error {
	at, err := u.storageURL(a.Href)
	if err != nil {
		return err
	}
	m := jsonMessage(at, map[string]any{"oid": f.sha256, "size": f.size})
	for name, value := range a.Header {
		// The hub's own address gets the token that Headroom has, and no other does.
		if !strings.EqualFold(name, "Authorization") {
			m.header.Set(name, string(value))
		}
	}
	_, err = u.client.deliver(ctx, m)
	if _, refused := asRefused(err); refused {
		return u.client.uploadProblem(err, u.plan.ID, f.path)
	}
	return err
}

// placed counts the bytes of one file in the progress.
type placed struct {
	upload  *upload
	placed  atomic.Int64 // bytes that the storage has
	counted atomic.Int64 // bytes that the progress has counted
}

func (u *upload) counterOf(f *localFile) *placed { return &placed{upload: u} }

// sending counts bytes on their way.
func (p *placed) sending(n int) {
	p.counted.Add(int64(n))
	p.upload.progress.Add(int64(n))
	atomic.AddInt64(&p.upload.done.Sent, int64(n))
}

// found counts bytes that need not be sent, in place of those that were counted.
func (p *placed) found(bytes int64) { p.settle(bytes) }

// settle corrects the progress to the bytes that are in the storage.
func (p *placed) settle(bytes int64) {
	p.upload.progress.Found(bytes - p.counted.Swap(bytes))
}
