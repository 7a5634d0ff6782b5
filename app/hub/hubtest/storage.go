package hubtest

// The storage of large files: Git LFS's batch API, and a server like S3 with signed addresses.

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const lfsType = "application/vnd.git-lfs+json"

func (h *Hub) serveBatch(w http.ResponseWriter, r *http.Request, id string, _ *Repository) {
	var q struct {
		Operation string
		Transfers []string
		Objects   []struct {
			OID  string
			Size int64
		}
		HashAlgo string `json:"hash_algo"`
		Ref      struct{ Name string }
	}
	if !h.body(w, r, lfsType, &q) {
		return
	}
	if q.Operation != "upload" || q.HashAlgo != "sha256" || r.Header.Get("Accept") != lfsType ||
		fmt.Sprint(q.Transfers) != "[basic multipart]" || q.Ref.Name != "main" {
		h.refuse(w, r, "%+v", q)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	objects := []map[string]any{}
	transfer := "basic"
	for _, o := range q.Objects {
		one := map[string]any{"oid": o.OID, "size": o.Size}
		if _, ok := h.objects[o.OID]; !ok {
			upload := h.action(o.OID, o.Size)
			if upload["header"] != nil {
				transfer = "multipart"
			}
			one["actions"] = map[string]any{"upload": upload,
				"verify": map[string]any{"href": h.URL + "/" + id + ".git/info/lfs/verify"}}
		}
		objects = append(objects, one)
	}
	w.Header().Set("Content-Type", lfsType)
	answer(w, map[string]any{"transfer": transfer, "objects": objects})
}

// action returns how to upload a file. The caller holds mu.
func (h *Hub) action(oid string, size int64) map[string]any {
	signed := fmt.Sprintf("?signature=%d", h.epoch)
	if size <= h.PartBytes {
		return map[string]any{"href": h.storage + "/object/" + oid + signed}
	}
	id := ""
	for known, p := range h.uploads {
		if h.SameUpload && p.oid == oid {
			id = known
		}
	}
	if id == "" {
		h.next++
		id = strconv.Itoa(h.next)
		h.uploads[id] = &parts{oid: oid, size: size, data: map[int]string{}}
	}
	header := map[string]string{"chunk_size": strconv.FormatInt(h.PartBytes, 10)}
	for i := range (size-1)/h.PartBytes + 1 {
		header[strconv.FormatInt(i+1, 10)] = fmt.Sprintf("%s/part/%s/%d%s", h.storage, id, i+1,
			signed)
	}
	return map[string]any{"href": h.URL + "/api/complete_multipart?uploadId=" + id,
		"header": header}
}

func (h *Hub) serveVerify(w http.ResponseWriter, r *http.Request, _ string, _ *Repository) {
	var q struct {
		OID  string
		Size int64
	}
	if !h.body(w, r, "application/json", &q) {
		return
	}
	h.mu.Lock()
	content, ok := h.objects[q.OID]
	h.mu.Unlock()
	if !ok || int64(len(content)) != q.Size {
		h.refuse(w, r, "the storage does not have %s", q.OID)
	}
}

// serveStorage answers PUT requests with signed addresses.
func (h *Hub) serveStorage(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		h.refuse(w, r, "the storage got a token")
		return
	}
	h.mu.Lock()
	expired := r.URL.Query().Get("signature") != strconv.Itoa(h.epoch)
	h.mu.Unlock()
	if r.Method != "PUT" {
		h.refuse(w, r, "expected PUT")
		return
	}
	if expired {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code>"+
			"<Message>Request has expired</Message></Error>")
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength != int64(len(content)) {
		return // the connection broke
	}
	words := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(words) == 2 && words[0] == "object":
		if SHA256(string(content)) != words[1] {
			h.wrong = append(h.wrong, "a file with another SHA-256: "+words[1])
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.objects[words[1]] = string(content)
	case len(words) == 3 && words[0] == "part":
		p, n := h.uploads[words[1]], 0
		if n, err = strconv.Atoi(words[2]); err != nil || p == nil {
			w.WriteHeader(http.StatusNotFound) // NoSuchUpload
			return
		}
		want := min(h.PartBytes, p.size-int64(n-1)*h.PartBytes)
		if int64(len(content)) != want {
			h.wrong = append(h.wrong, fmt.Sprintf("part %d has %d bytes, expected %d", n,
				len(content), want))
		}
		p.data[n] = string(content)
		w.Header().Set("ETag", etagOf(string(content)))
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	h.received += int64(len(content))
}

// serveComplete puts the parts of a file together.
func (h *Hub) serveComplete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		OID   string
		Parts []struct {
			PartNumber int
			Etag       string
		}
	}
	if !h.body(w, r, lfsType, &q) {
		return
	}
	h.mu.Lock()
	p := h.uploads[r.URL.Query().Get("uploadId")]
	h.mu.Unlock()
	if p == nil {
		fail(w, http.StatusNotFound, "", "The specified upload does not exist.")
		return
	}
	whole := ""
	for i, part := range q.Parts {
		data, ok := p.data[part.PartNumber]
		if part.PartNumber != i+1 || !ok || part.Etag != etagOf(data) {
			h.refuse(w, r, "part %d: %+v", i+1, part)
			return
		}
		whole += data
	}
	if q.OID != p.oid || int64(len(whole)) != p.size || SHA256(whole) != p.oid {
		h.refuse(w, r, "%d bytes of %s, expected %d of %s", len(whole), SHA256(whole), p.size,
			p.oid)
		return
	}
	h.mu.Lock()
	h.objects[p.oid] = whole
	for id, other := range h.uploads {
		if other.oid == p.oid {
			delete(h.uploads, id)
		}
	}
	h.mu.Unlock()
	answer(w, map[string]bool{"success": true})
}
