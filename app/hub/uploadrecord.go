package hub

// What is known of unfinished uploads in parts: the signed addresses and the etags of the parts
// that the storage has. With it, the next run sends only the missing parts. The addresses expire
// after a while, so an old entry is only forgotten. Whoever reads the file could complete the
// upload, so it is readable by its user alone.

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"headroom/app/disk"
)

// multipart is a file that is uploaded in parts.
type multipart struct {
	Endpoint string    `json:"endpoint"` // of the hub
	ID       string    `json:"id"`       // of the repository
	OID      string    `json:"oid"`      // SHA-256
	Size     int64     `json:"size"`
	Chunk    int64     `json:"chunk"` // bytes of each part but the last
	Complete string    `json:"complete"`
	Parts    []string  `json:"parts"` // addresses
	Etags    []string  `json:"etags"` // "": the part is missing
	At       time.Time `json:"at"`    // of the last part
}

func (p *multipart) count() int64 { return (p.Size-1)/p.Chunk + 1 }

// have returns the bytes of the parts that the storage has.
func (p *multipart) have() (bytes int64) {
	for i, etag := range p.Etags {
		if etag != "" {
			bytes += min(p.Chunk, p.Size-int64(i)*p.Chunk)
		}
	}
	return bytes
}

func (p *multipart) valid() bool {
	return p.Size > 0 && p.Chunk > 0 && p.count() <= maxParts && int64(len(p.Parts)) == p.count() &&
		len(p.Etags) == len(p.Parts)
}

// resume returns the upload to go on with: an earlier one, with the addresses of a new answer if
// that is of the same upload.
func (p *multipart) resume(earlier *multipart) *multipart {
	if earlier.Size != p.Size || !earlier.valid() {
		return p
	}
	if earlier.Chunk == p.Chunk && earlier.Complete == p.Complete {
		p.Etags = slices.Clone(earlier.Etags)
		return p
	}
	if earlier.Parts[0] == "" { // its addresses have expired
		return p
	}
	return earlier
}

const (
	maxNotedBytes = 64 << 20
	recordAge     = 7 * 24 * time.Hour // after which no storage keeps parts
)

// uploadRecord has the unfinished files of one repository. Its methods are safe for concurrent use.
type uploadRecord struct {
	path         string // "": nothing is written
	endpoint, id string

	mu    sync.Mutex
	files map[string]*multipart // by OID
}

// openRecord reads what an earlier run has noted.
func openRecord(path, endpoint, id string) *uploadRecord {
	r := &uploadRecord{path: path, endpoint: endpoint, id: id, files: map[string]*multipart{}}
	all, err := readRecords(path)
	if err != nil {
		slog.Warn("unfinished uploads cannot be noted: move the file away", "file", path,
			"err", err)
		r.path = ""
	}
	for _, p := range all {
		if r.owns(p) && p.valid() {
			r.files[p.OID] = p
		}
	}
	return r
}

func (r *uploadRecord) owns(p *multipart) bool { return p.Endpoint == r.endpoint && p.ID == r.id }

// readRecords returns the entries of a file, which need not exist.
func readRecords(path string) (all []*multipart, err error) {
	if path == "" {
		return nil, nil
	}
	text, _, err := disk.Read(path, maxNotedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if slices.Contains(all, nil) {
		err = errors.New("an entry is null")
	}
	return all, err
}

// find returns the unfinished upload of a file, or nil.
func (r *uploadRecord) find(oid string) *multipart {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[oid]
}

// part notes a part that the storage has.
func (r *uploadRecord) part(p *multipart, i int64, etag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Etags[i], p.At, p.Endpoint, p.ID = etag, time.Now(), r.endpoint, r.id
	r.files[p.OID] = p
	r.write()
}

// expire notes that the addresses of a file are no longer valid.
func (r *uploadRecord) expire(oid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.files[oid]; p != nil {
		clear(p.Parts)
		r.write()
	}
}

// drop forgets a file.
func (r *uploadRecord) drop(oid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files[oid] != nil {
		delete(r.files, oid)
		r.write()
	}
}

// remove forgets all files of the repository.
func (r *uploadRecord) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) > 0 {
		clear(r.files)
		r.write()
	}
}

// write replaces the entries of this repository in the file. The caller holds mu. Two programs that
// write at once may lose an entry, which costs sending those parts again.
func (r *uploadRecord) write() {
	if r.path == "" {
		return
	}
	all, err := readRecords(r.path)
	if err == nil {
		all = slices.DeleteFunc(all, func(p *multipart) bool {
			return r.owns(p) || time.Since(p.At) > recordAge
		})
		for _, p := range r.files {
			all = append(all, p)
		}
		err = writeRecords(r.path, all)
	}
	if err != nil {
		slog.Warn("an unfinished upload cannot be noted", "file", r.path, "err", err)
	}
}

func writeRecords(path string, all []*multipart) error {
	if all == nil {
		all = []*multipart{}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(path, text, 0o600)
}

// ForgetUploads empties the file that notes unfinished uploads. A file of something else stays.
func ForgetUploads(path string) error {
	all, err := readRecords(path)
	if err != nil || len(all) == 0 {
		return err
	}
	return writeRecords(path, nil)
}
