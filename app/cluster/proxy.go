package cluster

// The endpoint before rank 0. It answers requests that rank 0 must not see, such as those for
// another model, which all ranks would try to load, and says clearly what mlx_lm.server would leave
// open: that the cluster is starting, or that a rank has ended.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"headroom/engine/guard"
	"headroom/engine/openai"
	"headroom/engine/problem"
	"headroom/engine/server"
)

// maxBody is the largest body of a request, in bytes. It can have images.
const maxBody = 64 << 20

// Handler returns the endpoint of the cluster: OpenAI's chat completions, completions and models,
// /health, and the state at /api/cluster. Web pages of other machines are refused.
func (c *Cluster) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/v1/chat/completions", "/chat/completions", "/v1/completions"} {
		mux.HandleFunc("POST "+path, c.complete)
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		begin := c.Status().Since.Unix()
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": c.plan.Model, "object": "model", "created": begin, "owned_by": "cluster"}}})
	})
	mux.HandleFunc("GET /api/cluster", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, c.Status())
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if _, err := c.ready(); err != nil {
			refuse(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, problem.New(problem.NotFound, "There is no "+r.URL.Path,
			"a cluster has /v1/chat/completions, /v1/completions and /v1/models", ""))
	})
	return (&guard.Guard{}).Origin(refuse, mux)
}

// refuse answers with an error in OpenAI's form.
var refuse = server.Refuse(func(_ *http.Request, err error) server.Event {
	return openai.Dialect{}.Error(err)
})

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

// ready returns the ranks that can answer. The error is a Problem with a time to try again.
func (c *Cluster) ready() (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run != nil && c.run.ctx.Err() == nil {
		return c.run, nil
	}
	if c.status.State == Stopped {
		return nil, problem.New(problem.NotRunning, "The cluster has stopped", c.status.Error, "")
	}
	p := problem.New(problem.Loading, "The cluster is starting", "", "Try again in some seconds.")
	if c.status.Error != "" {
		p = problem.New(problem.Loading, "The cluster starts again", c.status.Error,
			"Try again in some seconds.")
	}
	p.RetryAfter = 5 * time.Second
	return nil, p
}

// complete answers a request by rank 0.
func (c *Cluster) complete(w http.ResponseWriter, r *http.Request) {
	body, err := c.body(w, r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	ranks, err := c.ready()
	if err != nil {
		refuse(w, r, err)
		return
	}
	c.change(func(s *Status) { s.Requests++ })
	defer c.change(func(s *Status) { s.Requests-- })
	if err := ranks.answer(w, r, body); err != nil {
		refuse(w, r, err)
	}
}

// body reads the body of a request, and returns it as rank 0 gets it. The error is a Problem.
func (c *Cluster) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, problem.New(problem.TooLarge, "The request is too large",
			fmt.Sprintf("its body has more than %d MB", maxBody>>20), "")
	}
	if err != nil {
		return nil, badRequest("its body ended early: %v", err)
	}
	return rewritten(text, c.plan.Model)
}

func badRequest(why string, values ...any) error {
	return problem.New(problem.BadRequest, "The request is not valid", fmt.Sprintf(why, values...),
		"")
}

// rewritten returns the body of a request as rank 0 gets it: with the model, and without fields
// that are null, which mlx-lm refuses.
func rewritten(text []byte, model string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, badRequest("its body is no JSON object")
	}
	for name, value := range fields {
		if string(value) == "null" {
			delete(fields, name)
		}
	}
	for _, name := range []string{"adapters", "draft_model"} {
		if fields[name] != nil {
			return nil, badRequest("a cluster has no %s", name)
		}
	}
	if asked, ok := fields["model"]; ok {
		var name string
		if json.Unmarshal(asked, &name) != nil || name != model {
			return nil, problem.New(problem.ModelNotFound, "The cluster does not run this model",
				fmt.Sprintf("the request names %.200s, and the cluster runs %q", asked, model), "")
		}
	} else {
		fields["model"], _ = json.Marshal(model) // a string always can
	}
	return json.Marshal(fields)
}
