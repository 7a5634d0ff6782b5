package route

// Headers of requests and answers that pass through this machine. Of a request, only what is listed
// here is sent on, so that no client's key or cookie leaves by mistake.

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"headroom/app/machines"
	"headroom/engine/server"
)

// machineHeader names the machine that has answered.
const machineHeader = "Headroom-Machine"

// via is the name of this program in the header Via: RFC 9110, section 7.6.3.
const via = "1.1 headroom"

// sentOn are the headers of a request that go to the machine.
var sentOn = append([]string{"Accept", "Content-Type", "User-Agent", "X-Title", "Http-Referer",
	"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Headroom-Cache",
	"X-Client-Request-Id"}, sessionHeaders...)

// sentBack are the headers of an answer that go to the client.
var sentBack = []string{"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control",
	"Retry-After", "Retry-After-Ms", "X-Accel-Buffering", "Openai-Model", "Openai-Processing-Ms",
	"X-Should-Retry"}

// newRequest returns a request to the machine. path is that of a Headroom.
func (m *machine) newRequest(ctx context.Context, method, path string,
	body []byte) (*http.Request, error) {
	secret, err := m.secret()
	if err != nil {
		return nil, err
	}
	if m.stored.Kind != machines.Headroom {
		path = strings.TrimPrefix(path, "/v1") // the stored address stands for it
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, m.stored.URL+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "headroom")
	if secret != "" {
		request.Header.Set("Authorization", "Bearer "+secret)
		if strings.HasPrefix(path, "/messages") || strings.HasPrefix(path, "/v1/messages") {
			request.Header.Set("X-Api-Key", secret)
		}
	}
	return request, nil
}

// forwardedRequest returns the request with which a machine answers a question.
func (e *target) forwardedRequest(ctx context.Context, q *question,
	body []byte) (*http.Request, error) {
	_, path, _ := strings.Cut(q.Pattern, " ")
	request, err := e.newRequest(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	if q.request.URL.Query().Get("beta") == "true" { // Anthropic's clients ask for it
		request.URL.RawQuery = url.Values{"beta": {"true"}}.Encode()
	}
	for _, name := range sentOn {
		if values := q.request.Header.Values(name); len(values) > 0 {
			request.Header[name] = values
		}
	}
	request.Header.Set(server.ForwardedHeader, "1")
	request.Header.Set("Via", via)
	return request, nil
}

// copyHeader sets the headers of the answer to a client.
func copyHeader(to http.Header, from http.Header, machine string) {
	for _, name := range sentBack {
		if values := from.Values(name); len(values) > 0 {
			to[name] = values
		}
	}
	to.Set("Via", via+" ("+comment(machine)+")")
	to.Set(machineHeader, comment(machine))
}

// comment returns a name in the characters that a header's comment may have.
func comment(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '(' || r == ')' || r == '\\' {
			return '_'
		}
		return r
	}, name)
}
