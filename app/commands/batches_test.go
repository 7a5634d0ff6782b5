package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"headroom/app/batches"
)

// TestBatchesOfAServer sends a batch with one of two keys, stops the server in the middle, starts
// it again, and compares the answers with those of single requests. Chats are answered meanwhile.
func TestBatchesOfAServer(t *testing.T) {
	isolate(t)
	flags := []string{"--context", "1024", "--no-ssd-cache"}
	s := startServer(t, flags...)
	ann, bob := addKey(t, "ann", "--requests-per-minute", "500", "--concurrent-requests", "1"),
		addKey(t, "bob")
	const n = 30
	body := func(i int) string {
		return fmt.Sprintf(`{"model":"headroom-demo","prompt":"Once %d","max_tokens":%d,`+
			`"temperature":0,"ignore_eos":true}`, i, 30+i)
	}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/completions","body":%s}`+
			"\n", i, body(i))
	}
	file := uploadFile(t, s, ann, lines.String())
	ask := func(key, method, path, body string) (v batches.Batch) {
		t.Helper()
		status, _, text := s.sendWith(key, method, path, body)
		if err := json.Unmarshal([]byte(text), &v); err != nil || status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return v
	}
	b := ask(ann, "POST", "/v1/batches", `{"input_file_id":"`+file+
		`","endpoint":"/v1/completions","completion_window":"24h"}`)
	s.within("some of the batch", func() bool {
		return ask(ann, "GET", "/v1/batches/"+b.ID, "").RequestCounts.Completed > 2
	})
	// The batch counts for no limit of the key, and others go on.
	for _, key := range []string{ann, bob} {
		if status, _, text := s.sendWith(key, "POST", "/v1/completions", body(0)); status != 200 {
			t.Errorf("beside the batch: %d %s", status, text)
		}
	}
	if status, _, _ := s.sendWith(bob, "GET", "/v1/batches/"+b.ID, ""); status != 404 {
		t.Errorf("another key's batch: %d", status)
	}
	half := ask(ann, "GET", "/v1/batches/"+b.ID, "").RequestCounts.Completed
	s.stop()
	s = startServer(t, flags...)
	defer s.stop()
	s.within("the end of the batch", func() bool {
		b = ask(ann, "GET", "/v1/batches/"+b.ID, "")
		return b.CompletedAt != nil
	})
	if b.RequestCounts != (batches.Counts{Total: n, Completed: n}) || half == 0 {
		t.Fatalf("%+v, %d before the restart", b, half)
	}
	used := listKeys(t)["ann"].Requests
	if most := int64(n + 1 + 16); used > most || used < n+1 {
		t.Errorf("the key has %d requests, expected %d, and those that the restart has cut off",
			used, n+1)
	}
	_, _, text := s.sendWith(ann, "GET", "/v1/files/"+*b.OutputFileID+"/content", "")
	for line := range strings.Lines(text) {
		var one struct {
			CustomID string `json:"custom_id"`
			Response struct{ Body json.RawMessage }
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		var i int
		_, _ = fmt.Sscan(one.CustomID, &i)
		_, _, alone := s.sendWith(bob, "POST", "/v1/completions", body(i))
		if got, want := firstText(one.Response.Body), firstText([]byte(alone)); got != want ||
			got == "" {
			t.Errorf("request %d: %q in the batch, %q alone", i, got, want)
		}
	}
}

// firstText returns the text of the first choice of a completion.
func firstText(body []byte) string {
	var c struct{ Choices []struct{ Text string } }
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 {
		return ""
	}
	return c.Choices[0].Text
}

// uploadFile uploads a file of requests with a key and returns its ID.
func uploadFile(t *testing.T, s *serverProcess, key, content string) string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "in.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, content)
	_ = w.WriteField("purpose", "batch")
	_ = w.Close()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+s.address+"/v1/files", &form)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Authorization", "Bearer "+key)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var f batches.File
	if err := json.NewDecoder(got.Body).Decode(&f); err != nil || f.ID == "" {
		t.Fatalf("%s, %v", got.Status, err)
	}
	return f.ID
}
