// Package hubtest has a hub for tests of uploads: the part of the Hugging Face hub's API that
// huggingface_hub uses to upload a folder, and a storage for large files. It checks every byte: a
// part has its size, a file its SHA-256, a commit its parent and only files that the storage has.
// What it does not know it refuses and notes in Wrong. app/hub/reference_test.go shows that
// huggingface_hub itself can upload to it.
package hubtest

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Token is the token that may write.
const Token = "hf_secret"

// File is a file of a repository.
type File struct {
	Content string
	Large   bool // by LFS
}

// Repository is a repository of the hub.
type Repository struct {
	Private bool
	Head    string // commit
	Commits int
	Files   map[string]File
}

// Hub is the hub. Change its fields before the first request, or in Fault.
type Hub struct {
	URL string // of the hub
	// Role is that of Token: "write" if empty.
	Role string
	// LargeBytes is the size from which files are large; those named *.safetensors always are.
	LargeBytes int64
	// PartBytes is the size of parts; files that are not longer go in one request.
	PartBytes int64
	// Fault may answer a request to the hub or the storage; it returns true if it did. n counts
	// the requests from 1. It may be nil.
	Fault func(w http.ResponseWriter, r *http.Request, n int) bool
	// SameUpload answers questions about an unfinished file with new addresses of the same upload.
	SameUpload bool
	// Repositories are those of the hub, by their IDs.
	Repositories map[string]*Repository

	storage string // its URL

	mu       sync.Mutex
	requests []string
	wrong    []string
	objects  map[string]string // content by SHA-256
	uploads  map[string]*parts // by ID
	next     int               // ID
	epoch    int               // signatures of earlier ones have expired
	received int64             // bytes of large files
	creating bool              // public although private was asked for
}

// parts is an upload in parts.
type parts struct {
	oid  string
	size int64
	data map[int]string
}

// New returns a running hub without repositories. It closes at the end of the test.
func New(t testing.TB) *Hub {
	h := &Hub{LargeBytes: 1000, PartBytes: 256, Repositories: map[string]*Repository{},
		objects: map[string]string{}, uploads: map[string]*parts{}}
	hub := httptest.NewServer(h.handler(h.serveHub))
	storage := httptest.NewServer(h.handler(h.serveStorage))
	t.Cleanup(hub.Close)
	t.Cleanup(storage.Close)
	h.URL, h.storage = hub.URL, storage.URL
	return h
}

// Add adds a repository with these files.
func (h *Hub) Add(id string, private bool, files map[string]File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Repository{Private: private, Files: map[string]File{".gitattributes": {Content: "*"}}}
	for name, f := range files {
		r.Files[name] = f
		if f.Large {
			h.objects[SHA256(f.Content)] = f.Content
		}
	}
	r.Head = sha1Of(id)
	h.Repositories[id] = r
}

// Wrong returns what clients have done against the protocol.
func (h *Hub) Wrong() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.wrong)
}

// Requests returns the requests, such as "PUT /part/1/2".
func (h *Hub) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Received returns how many bytes of large files have arrived whole, since the last call.
func (h *Hub) Received() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.received
	h.received = 0
	return n
}

// Expire makes all signed addresses invalid.
func (h *Hub) Expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
}

// ForgetParts makes the storage forget all unfinished uploads.
func (h *Hub) ForgetParts() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.uploads)
}

// Publish makes the next new repository public, whatever is asked for.
func (h *Hub) Publish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.creating = true
}

// Content returns the files of a repository but .gitattributes, and whether it exists.
func (h *Hub) Content(id string) (files map[string]string, exists bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.Repositories[id]
	files = map[string]string{}
	if ok {
		for name, f := range r.Files {
			if name != ".gitattributes" {
				files[name] = f.Content
			}
		}
	}
	return files, ok
}

// handler counts and notes requests, and lets Fault answer them.
func (h *Hub) handler(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, r.Method+" "+r.URL.Path)
		n, fault := len(h.requests), h.Fault
		h.mu.Unlock()
		if fault != nil && fault(w, r, n) {
			return
		}
		serve(w, r)
	}
}

// fail answers with an error that is no mistake of the client.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Message", message)
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.WriteHeader(status)
	answer(w, map[string]string{"error": message})
}

// refuse answers with an error, and notes it as a mistake of the client.
func (h *Hub) refuse(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	h.mu.Lock()
	h.wrong = append(h.wrong, r.Method+" "+r.URL.Path+": "+text)
	h.mu.Unlock()
	fail(w, http.StatusBadRequest, "", text)
}

func answer(w http.ResponseWriter, document any) { _ = json.NewEncoder(w).Encode(document) }

// body reads a JSON body strictly. It answers and returns false if that fails.
func (h *Hub) body(w http.ResponseWriter, r *http.Request, kind string, into any) bool {
	if got := r.Header.Get("Content-Type"); got != kind {
		h.refuse(w, r, "the Content-Type is %q, expected %q", got, kind)
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		h.refuse(w, r, "%v", err)
		return false
	}
	return true
}

// serveHub answers requests to the hub.
func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if path == "api/complete_multipart" { // its address is signed
		h.serveComplete(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+Token {
		fail(w, http.StatusUnauthorized, "", "Invalid username or password.")
		return
	}
	switch {
	case path == "api/whoami-v2":
		role := h.Role
		if role == "" {
			role = "write"
		}
		answer(w, map[string]any{"type": "user", "name": "me", "auth": map[string]any{
			"type": "access_token", "accessToken": map[string]string{"role": role}}})
	case path == "api/repos/create":
		h.serveCreate(w, r)
	case path == "api/validate-yaml": // huggingface_hub asks it about README.md
		answer(w, map[string]any{"errors": []string{}, "warnings": []string{}})
	case strings.HasSuffix(path, ".git/info/lfs/objects/batch"):
		h.withRepository(w, r, strings.TrimSuffix(path, ".git/info/lfs/objects/batch"),
			h.serveBatch)
	case strings.HasSuffix(path, ".git/info/lfs/verify"):
		h.withRepository(w, r, strings.TrimSuffix(path, ".git/info/lfs/verify"), h.serveVerify)
	case strings.HasPrefix(path, "api/models/"):
		words := strings.Split(strings.TrimPrefix(path, "api/models/"), "/")
		if len(words) == 2 {
			words = append(words, "revision", "main")
		}
		serve := map[string]func(http.ResponseWriter, *http.Request, string, *Repository){
			"revision": h.serveListing, "preupload": h.servePreupload, "commit": h.serveCommit,
		}[words[min(2, len(words)-1)]]
		if len(words) != 4 || words[3] != "main" || serve == nil {
			h.refuse(w, r, "there is no such route")
			return
		}
		h.withRepository(w, r, words[0]+"/"+words[1], serve)
	default:
		h.refuse(w, r, "there is no such route")
	}
}

// withRepository calls serve with a repository that exists.
func (h *Hub) withRepository(w http.ResponseWriter, r *http.Request, id string,
	serve func(http.ResponseWriter, *http.Request, string, *Repository)) {
	h.mu.Lock()
	repository, ok := h.Repositories[id]
	h.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	}
	serve(w, r, id, repository)
}

func (h *Hub) serveCreate(w http.ResponseWriter, r *http.Request) {
	var q struct{ Name, Organization, Type, Visibility string }
	if !h.body(w, r, "application/json", &q) {
		return
	}
	id := q.Organization + "/" + q.Name
	h.mu.Lock()
	_, exists := h.Repositories[id]
	public := h.creating
	h.mu.Unlock()
	switch {
	case q.Type != "model" || q.Name == "" || q.Organization == "" || q.Visibility != "private" &&
		q.Visibility != "public" && q.Visibility != "":
		h.refuse(w, r, "%+v", q)
	case q.Organization == "foreign":
		fail(w, http.StatusForbidden, "",
			"You don't have the rights to create a model under the namespace \"foreign\"")
	case exists:
		fail(w, http.StatusConflict, "", "You already created this model repo")
	default:
		h.Add(id, q.Visibility == "private" && !public, nil)
		answer(w, map[string]string{"url": h.URL + "/" + id, "name": id, "id": "1"})
	}
}

func (h *Hub) serveListing(w http.ResponseWriter, _ *http.Request, id string, m *Repository) {
	h.mu.Lock()
	defer h.mu.Unlock()
	siblings := []map[string]any{}
	for name, f := range m.Files {
		s := map[string]any{"rfilename": name, "size": len(f.Content), "blobId": blobOf(f.Content)}
		if f.Large {
			s["blobId"] = sha1Of("pointer of " + f.Content)
			s["lfs"] = map[string]any{"sha256": SHA256(f.Content), "size": len(f.Content),
				"pointerSize": 134}
		}
		siblings = append(siblings, s)
	}
	slices.SortFunc(siblings, func(a, b map[string]any) int {
		return strings.Compare(a["rfilename"].(string), b["rfilename"].(string))
	})
	answer(w, map[string]any{"_id": "1", "id": id, "modelId": id, "sha": m.Head,
		"private": m.Private, "gated": false, "disabled": false, "siblings": siblings})
}

func (h *Hub) servePreupload(w http.ResponseWriter, r *http.Request, _ string, m *Repository) {
	var q struct {
		Files []struct {
			Path   string
			Sample []byte // base64
			Size   int64
		}
	}
	if !h.body(w, r, "application/json", &q) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	files := []map[string]any{}
	for _, f := range q.Files {
		if int64(len(f.Sample)) != min(f.Size, 512) {
			h.wrong = append(h.wrong, fmt.Sprintf("%s: a sample of %d bytes", f.Path,
				len(f.Sample)))
		}
		mode := "regular"
		if f.Size >= h.LargeBytes || strings.HasSuffix(f.Path, ".safetensors") {
			mode = "lfs"
		}
		one := map[string]any{"path": f.Path, "uploadMode": mode,
			"shouldIgnore": strings.HasSuffix(f.Path, ".log")}
		if now, ok := m.Files[f.Path]; ok {
			one["oid"] = blobOf(now.Content)
			if now.Large {
				one["oid"] = SHA256(now.Content)
			}
		}
		files = append(files, one)
	}
	answer(w, map[string]any{"files": files, "commitOid": m.Head})
}

// serveCommit checks the whole commit before it changes a file.
func (h *Hub) serveCommit(w http.ResponseWriter, r *http.Request, id string, m *Repository) {
	if got := r.Header.Get("Content-Type"); got != "application/x-ndjson" {
		h.refuse(w, r, "the Content-Type is %q", got)
		return
	}
	var header struct{ Summary, Description, ParentCommit string }
	changed := map[string]File{}
	for d, n := json.NewDecoder(r.Body), 0; ; n++ {
		var line struct {
			Key   string
			Value json.RawMessage
		}
		err := d.Decode(&line)
		if err == io.EOF && n > 0 {
			break
		}
		if err == nil && (n == 0) != (line.Key == "header") {
			err = fmt.Errorf("line %d is a %q", n+1, line.Key)
		}
		if err == nil && n == 0 {
			err = strict(line.Value, &header)
		} else if err == nil {
			err = h.change(line.Key, line.Value, changed)
		}
		if err != nil {
			h.refuse(w, r, "%v", err)
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if header.ParentCommit != "" && header.ParentCommit != m.Head {
		fail(w, http.StatusPreconditionFailed, "",
			"A commit has happened since. Please refresh and try again.")
		return
	}
	for name, f := range changed {
		m.Files[name] = f
	}
	m.Commits++
	m.Head = sha1Of(m.Head + header.Summary + strconv.Itoa(m.Commits))
	answer(w, map[string]any{"success": true, "commitOid": m.Head, "hookOutput": "",
		"commitUrl": h.URL + "/" + id + "/commit/" + m.Head})
}

// change adds the file of one line of a commit to files.
func (h *Hub) change(key string, value json.RawMessage, files map[string]File) error {
	switch key {
	case "file":
		var f struct {
			Path, Encoding string
			Content        []byte // base64
		}
		if err := strict(value, &f); err != nil || f.Encoding != "base64" || f.Path == "" {
			return fmt.Errorf("file %s: %w", value, err)
		}
		files[f.Path] = File{Content: string(f.Content)}
	case "lfsFile":
		var f struct {
			Path, Algo, OID string
			Size            int64
		}
		if err := strict(value, &f); err != nil || f.Algo != "sha256" || f.Path == "" {
			return fmt.Errorf("lfsFile %s: %w", value, err)
		}
		h.mu.Lock()
		content, ok := h.objects[f.OID]
		h.mu.Unlock()
		if !ok || int64(len(content)) != f.Size {
			return fmt.Errorf("lfsFile %s is not in the storage", value)
		}
		files[f.Path] = File{Content: content, Large: true}
	default:
		return fmt.Errorf("the key is %q", key)
	}
	return nil
}

func strict(text json.RawMessage, into any) error {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// SHA256 returns the hexadecimal SHA-256 of a text.
func SHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func blobOf(text string) string { return sha1Of(fmt.Sprintf("blob %d\x00%s", len(text), text)) }

func etagOf(text string) string {
	sum := md5.Sum([]byte(text))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
