package hub

// One file: its address, size and checksum at the hub, and its download to a blob.

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// remote is a file of the hub.
type remote struct {
	File // locate completes Size and Sum
	etag string
	url  *url.URL

	mu sync.Mutex
	at *url.URL // target of the hub's redirect, for the next part; nil: unknown or expired
}

var etagForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)

// parseEtag returns an etag as the cache names blobs: without quotes and the prefix W/ of a weak
// etag. It returns "" for an etag that cannot be a file name.
func parseEtag(text string) string {
	text = strings.Trim(strings.TrimPrefix(strings.TrimSpace(text), "W/"), `"`)
	if !etagForm.MatchString(text) || strings.HasSuffix(text, incompleteSuffix) {
		return ""
	}
	return text
}

// locate asks the hub for a file's etag and size, and compares them with the list of files.
func (c *Client) locate(ctx context.Context, r Repository, f File) (*remote, error) {
	parts := strings.Split(f.Path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	u, err := c.endpoint.Parse(c.endpoint.Path + "/" + r.ID + "/resolve/" + r.Commit + "/" +
		strings.Join(parts, "/"))
	if err != nil {
		return nil, c.invalid(err)
	}
	m := &remote{File: f, url: u}
	var a answer
	err = c.retry(ctx, maxFailures, func() (bool, error) {
		var err error
		if a, err = c.request(ctx, "HEAD", u, nil); err == nil {
			a.Body.Close()
		}
		return false, err
	})
	if err != nil {
		return nil, about(err, f.Path)
	}
	if m.etag = parseEtag(first(a.hub, "X-Linked-Etag", "Etag")); m.etag == "" {
		if m.etag = f.Sum; m.etag == "" {
			return nil, c.invalid(fmt.Errorf("%s has no usable etag", f.Path))
		}
	}
	if text := first(a.hub, "X-Linked-Size", "Content-Length"); text != "" &&
		(a.StatusCode/100 == 2 || a.hub.Get("X-Linked-Size") != "") {
		size, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || size < 0 || size > maxFileBytes:
			return nil, c.invalid(fmt.Errorf("%s has a size of %q bytes", f.Path, text))
		case f.Size >= 0 && f.Size != size:
			return nil, c.invalid(fmt.Errorf("%s has %d bytes, but %d in the list of files", f.Path,
				size, f.Size))
		}
		m.Size = size
	}
	if sumForm.MatchString(m.etag) {
		if f.Sum != "" && len(f.Sum) == len(m.etag) && f.Sum != m.etag {
			return nil, c.invalid(fmt.Errorf("%s has the checksum %s, but %s in the list of files",
				f.Path, m.etag, f.Sum))
		}
		m.Sum = m.etag
	}
	return m, nil
}

// first returns the value of the first of these headers that is not empty.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// hasher returns the hash for the file's checksum, or nil if none is known. Git's hash of small
// files includes a header with the size.
func (m *remote) hasher(size int64) hash.Hash {
	switch len(m.Sum) {
	case 2 * sha256.Size:
		return sha256.New()
	case 2 * sha1.Size:
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}
	return nil
}

// errDamaged means that a downloaded file does not have the hub's checksum.
var errDamaged = errors.New("its checksum is wrong")

// file downloads one file into the cache, unless it is there.
func (d *download) file(ctx context.Context, m *remote) error {
	if err := d.blob(ctx, m); err != nil {
		return err
	}
	return d.layout.link(d.repository.Commit, m.Path, m.etag)
}

// blob downloads the blob.
func (d *download) blob(ctx context.Context, m *remote) error {
	if err := os.MkdirAll(d.layout.blobs(), 0o755); err != nil {
		return err
	}
	lock, err := d.await(ctx, m)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if d.whole(m) {
		d.progress.Found(m.Size)
		return nil
	}
	for try := range 2 {
		if err = d.fetch(ctx, m); !errors.Is(err, errDamaged) {
			return err
		}
		d.client.log.Warn("a downloaded file has a wrong checksum", "file", m.Path,
			"attempt", try+1)
		if err := os.Remove(d.layout.incomplete(m.etag)); err != nil {
			return err
		}
	}
	return problem.New(problem.Upstream, "The download is damaged",
		m.Path+" had a wrong checksum twice", "Try again later, or use another mirror.")
}

// whole reports whether the cache has the complete blob.
func (d *download) whole(m *remote) bool {
	info, err := os.Stat(d.layout.blob(m.etag))
	return err == nil && info.Mode().IsRegular() && (m.Size < 0 || info.Size() == m.Size)
}

// await locks the blob, and waits while another program writes it.
func (d *download) await(ctx context.Context, m *remote) (*flock.Flock, error) {
	for {
		lock, err := d.layout.lockBlob(m.etag)
		if !errors.Is(err, disk.ErrLocked) {
			return lock, err
		}
		d.progress.Phase("waiting for another program", m.Path)
		if err := d.client.options.sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// fetch appends the rest of the file to its .incomplete file, verifies it, and renames it to the
// blob.
func (d *download) fetch(ctx context.Context, m *remote) (err error) {
	part := d.layout.incomplete(m.etag)
	// Another tool may have begun the file. A link there leads to a file that is not the cache's.
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		err = d.layout.noteCreated(d.repository.Commit, created{Etag: m.etag})
	} else if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(part, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return err
	}
	w := &writer{file: file, write: d.client.options.write, hash: m.hasher(m.Size),
		progress: d.progress}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
		if errors.Is(err, errDamaged) {
			d.progress.Found(-w.have)
		}
	}()
	if err := w.resume(m.Size); err != nil {
		return err
	}
	d.progress.Phase("downloading", m.Path)
	if m.Size >= 0 {
		err = d.client.parts(ctx, m, w)
	} else {
		err = d.client.stream(ctx, m, w)
	}
	if err != nil {
		return err
	}
	if m.Size < 0 { // git's hash includes the size, which is known only now
		w.hash = m.hasher(w.have)
		if err := w.rehash(); err != nil {
			return err
		}
	}
	if w.hash != nil && hex.EncodeToString(w.hash.Sum(nil)) != m.Sum {
		return errDamaged
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(part, d.layout.blob(m.etag)); err != nil {
		return err
	}
	disk.SyncDir(d.layout.blobs())
	return nil
}

// writer appends to an incomplete file and hashes its content.
type writer struct {
	file     *os.File
	write    func(*os.File, []byte) (int, error)
	hash     hash.Hash // nil: no checksum is known
	have     int64     // bytes in the file
	progress interface {
		Found(int64)
		Add(int64)
	}
}

// resume prepares to append to the file's content. It empties the file if it is longer than size,
// or if size is not known.
func (w *writer) resume(size int64) error {
	info, err := w.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &os.PathError{Op: "resume", Path: w.file.Name(), Err: fs.ErrInvalid}
	}
	w.have = info.Size()
	if size < 0 || w.have > size {
		w.have = 0
		if err := w.file.Truncate(0); err != nil {
			return err
		}
	}
	w.progress.Found(w.have)
	if err := w.rehash(); err != nil {
		return err
	}
	_, err = w.file.Seek(w.have, io.SeekStart)
	return err
}

// rehash hashes the content of the file.
func (w *writer) rehash() error {
	if w.hash == nil {
		return nil
	}
	_, err := io.Copy(w.hash, io.NewSectionReader(w.file, 0, w.have))
	return err
}

// append writes the next bytes. The caller has already counted them in progress.
func (w *writer) append(b []byte) error {
	n, err := w.write(w.file, b)
	if w.hash != nil {
		w.hash.Write(b[:n])
	}
	w.have += int64(n)
	return err
}
