package batches

// The dialect: OpenAI's routes for files and batches.

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"headroom/app/batch"
	"headroom/engine/guard"
	"headroom/engine/jsonbody"
	"headroom/engine/openai"
	"headroom/engine/server"
)

// Routes implements server.Dialect.
func (s *Store) Routes() []server.Route {
	return []server.Route{
		{Pattern: "POST /v1/files", Alias: "POST /files", Free: true,
			Summary: "Uploads a file of requests, as a form.", Handle: s.handleUpload},
		{Pattern: "GET /v1/files", Alias: "GET /files", Summary: "The files.",
			Document: s.handleFiles},
		{Pattern: "GET /v1/files/{id}", Alias: "GET /files/{id}", Summary: "One file.",
			Document: s.handleFile},
		{Pattern: "GET /v1/files/{id}/content", Alias: "GET /files/{id}/content", Free: true,
			Summary: "The content of a file.", Handle: s.handleContent},
		{Pattern: "DELETE /v1/files/{id}", Alias: "DELETE /files/{id}",
			Summary: "Deletes a file.", Document: s.handleDelete},
		{Pattern: "POST /v1/batches", Alias: "POST /batches", Body: bodySchema, Free: true,
			Summary: "Answers the requests of a file in the background.", Answer: s.handleCreate},
		{Pattern: "GET /v1/batches", Alias: "GET /batches", Summary: "The batches.",
			Document: s.handleBatches},
		{Pattern: "GET /v1/batches/{id}", Alias: "GET /batches/{id}", Summary: "One batch.",
			Document: s.handleBatch},
		{Pattern: "POST /v1/batches/{id}/cancel", Alias: "POST /batches/{id}/cancel",
			Summary: "Ends a batch.", Document: s.handleCancel},
	}
}

// Error renders err as {"error": {...}}, as OpenAI's other routes do.
func (s *Store) Error(err error) server.Event {
	return server.Event{Data: openai.NewErrorBody(err)}
}

// ownerOf returns the ID of the API key of a request; "": it has none with a name.
func ownerOf(ctx context.Context) string {
	if c := guard.CallerIn(ctx); c != nil {
		return c.ID
	}
	return ""
}

func (s *Store) handleUpload(w http.ResponseWriter, r *http.Request) error {
	f, err := s.upload(r, ownerOf(r.Context()))
	if err == nil {
		server.WriteJSON(w, f)
	}
	return err
}

func (s *Store) handleFiles(r *http.Request, _ server.Models) (any, error) {
	query := r.URL.Query()
	p, err := readPaging(query.Get, 10_000, 10_000)
	if err != nil {
		return nil, err
	}
	return s.files(ownerOf(r.Context()), query.Get("purpose"), p)
}

func (s *Store) handleFile(r *http.Request, _ server.Models) (any, error) {
	return s.getFile(ownerOf(r.Context()), r.PathValue("id"))
}

func (s *Store) handleContent(w http.ResponseWriter, r *http.Request) error {
	f, content, err := s.read(ownerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer content.close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(f.Bytes, 10))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": f.Filename}))
	if n, err := io.Copy(w, content); err != nil || n != f.Bytes {
		// The length has been promised: the client must see that it did not get the whole file.
		s.o.Log.Warn("a file was not sent as a whole", "file", f.ID, "bytes", n, "of", f.Bytes,
			"err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s *Store) handleDelete(r *http.Request, _ server.Models) (any, error) {
	return s.deleteFile(ownerOf(r.Context()), r.PathValue("id"))
}

func (s *Store) handleBatches(r *http.Request, _ server.Models) (any, error) {
	p, err := readPaging(r.URL.Query().Get, 20, 100)
	if err != nil {
		return nil, err
	}
	return s.batches(ownerOf(r.Context()), p)
}

func (s *Store) handleBatch(r *http.Request, _ server.Models) (any, error) {
	return s.getBatch(ownerOf(r.Context()), r.PathValue("id"))
}

func (s *Store) handleCancel(r *http.Request, _ server.Models) (any, error) {
	return s.cancel(ownerOf(r.Context()), r.PathValue("id"))
}

// newBatch is the body of a request for a batch.
type newBatch struct {
	InputFileID      string          `json:"input_file_id"`
	Endpoint         string          `json:"endpoint"`
	CompletionWindow string          `json:"completion_window"`
	Metadata         json.RawMessage `json:"metadata"`

	metadata map[string]string
}

// fields are the fields of a request for a batch. ENDPOINT.md lists them.
var fields = []jsonbody.Field{
	{Name: "input_file_id", Support: jsonbody.Works,
		Note: "a file with the purpose `batch`"},
	{Name: "endpoint", Support: jsonbody.Works,
		Note: "`/v1/chat/completions`, `/v1/completions`, `/v1/responses` or `/v1/embeddings`"},
	{Name: "completion_window", Support: jsonbody.Works, Note: "`24h`"},
	{Name: "metadata", Support: jsonbody.Works, Note: "up to 16 texts by name"},
	{Name: "output_expires_after", Support: jsonbody.Refused,
		Note: "output files are kept for 30 days"},
}

var fieldsByName = jsonbody.ByName(fields)

func (s *Store) handleCreate(ctx context.Context, body []byte, _ server.Resources) (any, error) {
	q, err := parseBatch(body)
	if err != nil {
		return nil, err
	}
	return s.create(ownerOf(ctx), q)
}

// Longest key and value of metadata, in characters, as at OpenAI.
const (
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// parseBatch reads the body of a request for a batch.
func parseBatch(body []byte) (q newBatch, err error) {
	if err := jsonbody.Check(body); err != nil {
		return q, err
	}
	if err := fieldsByName.Refuse(body); err != nil {
		return q, err
	}
	if err := jsonbody.Decode(body, &q, ""); err != nil {
		return q, err
	}
	switch {
	case q.InputFileID == "":
		return q, badParam("input_file_id", "is missing")
	case !slices.Contains(batch.Endpoints, q.Endpoint):
		return q, badParam("endpoint", "must be one of %v, got %.80q", batch.Endpoints, q.Endpoint)
	case q.CompletionWindow != "24h":
		return q, badParam("completion_window", `must be "24h", got %.80q`, q.CompletionWindow)
	}
	q.metadata, err = readMetadata(q.Metadata)
	return q, err
}

// readMetadata reads up to maxMetadata texts by name.
func readMetadata(raw json.RawMessage) (texts map[string]string, err error) {
	if len(raw) == 0 || jsonbody.IsNull(raw) {
		return nil, nil
	}
	if json.Unmarshal(raw, &texts) != nil {
		return nil, badParam("metadata", "must be an object of texts, got %s",
			jsonbody.Shorten(raw))
	}
	if len(texts) > maxMetadata {
		return nil, badParam("metadata", "has %d members, expected at most %d", len(texts),
			maxMetadata)
	}
	for name, value := range texts {
		if utf8.RuneCountInString(name) > maxMetadataKey ||
			utf8.RuneCountInString(value) > maxMetadataValue {
			return nil, badParam("metadata",
				"names may have %d characters and texts %d; %.80q has more", maxMetadataKey,
				maxMetadataValue, name)
		}
	}
	return texts, nil
}

// bodySchema is the schema of the body of a request for a batch, for GET /openapi.json.
func bodySchema() jsonbody.Schema {
	return jsonbody.BodySchema(fields, reflect.TypeFor[newBatch](), map[string]jsonbody.Schema{
		"endpoint":          jsonbody.OneOfTexts(batch.Endpoints...),
		"completion_window": jsonbody.OneOfTexts("24h"),
		"metadata": {"type": "object", "maxProperties": maxMetadata,
			"additionalProperties": jsonbody.Text()},
	}, "input_file_id", "endpoint", "completion_window")
}
