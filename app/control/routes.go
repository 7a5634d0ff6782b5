package control

// The routes of the API as data, with the types of their request and response bodies. New registers
// every route with an http.ServeMux, and openapi.go describes the same list, so the two always
// agree.

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"

	"headroom/engine/problem"
)

// Route is one method and path of the API.
type Route struct {
	Pattern  string       // pattern of http.ServeMux: "GET /control/cache/{key}"
	Summary  string       // one sentence for the OpenAPI document
	Queries  []Query      // optional query parameters
	Status   int          // status of a successful response
	Body     reflect.Type // type of the JSON request body; nil: none
	Response reflect.Type // type of the JSON response body; nil: none, or events
	Events   bool         // the response is a stream of server-sent events
	maxBody  int64        // bytes of the request body; 0: maxBodyBytes
	strict   bool         // unknown fields of the body are refused
	serve    func(w http.ResponseWriter, r *http.Request, row Route)
}

// Query is a query parameter. Description explains it.
type Query struct{ Name, Description string }

// nothing is the type of an absent request or response body.
type nothing struct{}

// route returns a Route whose handler do takes the decoded request body and returns the response
// body. The errors of do are Problems. example is a valid request body, quoted in the error for an
// invalid one.
func route[Body, Response any](pattern, summary, example string,
	do func(r *http.Request, body Body) (Response, error)) Route {
	row := Route{Pattern: pattern, Summary: summary, Status: http.StatusOK,
		Body: typeUnlessNothing[Body](), Response: typeUnlessNothing[Response]()}
	if row.Response == nil {
		row.Status = http.StatusNoContent
	}
	row.serve = func(w http.ResponseWriter, r *http.Request, row Route) {
		var body Body
		if row.Body != nil {
			if err := readBody(r, cmp.Or(row.maxBody, maxBodyBytes), row.strict, &body,
				example); err != nil {
				refuse(w, err)
				return
			}
		}
		switch document, err := do(r, body); {
		case err != nil:
			refuse(w, err)
		case row.Response == nil:
			w.WriteHeader(row.Status)
		default:
			write(w, row.Status, document)
		}
	}
	return row
}

// soonTime is how long a route waits for work of the model's process.
const soonTime = 800 * time.Millisecond

// soon runs work and waits for its result, but no longer than soonTime. If ended is false, the work
// goes on and its result is lost. It ends after all: the model's process answers, or it is ended.
func soon[T any](work func() (T, error)) (result T, ended bool, err error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if r := recover(); r != nil { // server.Recover sees only the handler's goroutine
				slog.Error("a request panicked", "panic", fmt.Sprint(r), "stack",
					string(debug.Stack()))
				o.err = problem.From(fmt.Errorf("a bug: %v", r))
			}
			done <- o
		}()
		o.result, o.err = work()
	}()
	late := time.NewTimer(soonTime)
	defer late.Stop()
	select {
	case o := <-done:
		return o.result, true, o.err
	case <-late.C:
		return result, false, nil
	}
}

// typeUnlessNothing returns the type T; nil for the type nothing.
func typeUnlessNothing[T any]() reflect.Type {
	if t := reflect.TypeFor[T](); t != reflect.TypeFor[nothing]() {
		return t
	}
	return nil
}

// withStatus returns the route with another status of success.
func (r Route) withStatus(status int) Route {
	r.Status = status
	return r
}

// withMaxBody returns the route with another limit of the request body.
func (r Route) withMaxBody(bytes int64) Route {
	r.maxBody = bytes
	return r
}

// withKnownFields returns the route such that it refuses unknown fields: it decides who may do
// what, and a limit that is misspelled must not be left out in silence.
func (r Route) withKnownFields() Route {
	r.strict = true
	return r
}

// withQueries returns the route with these query parameters.
func (r Route) withQueries(queries ...Query) Route {
	r.Queries = queries
	return r
}

// Routes returns the routes of this API. Some exist only with certain options.
func (a *API) Routes() []Route {
	rows := append(a.engineRoutes(), a.modelRoutes()...)
	rows = append(rows, a.cacheRoutes()...)
	rows = append(rows, a.memoryRoutes()...)
	rows = append(rows, a.reportRoutes()...)
	if a.settings != nil {
		rows = append(rows, a.generalRoutes()...)
		rows = append(rows, a.settingsRoutes()...)
		rows = append(rows, a.modelSettingsRoutes()...)
	}
	if a.keys != nil {
		rows = append(rows, a.keyRoutes()...)
	}
	if a.machines != nil {
		rows = append(rows, a.machineRoutes()...)
	}
	if a.agents != nil {
		rows = append(rows, a.agentRoutes()...)
	}
	if a.chats != nil {
		rows = append(rows, a.chatRoutes()...)
	}
	if a.stored != nil {
		rows = append(rows, a.storedRoutes()...)
	}
	if a.logs != nil {
		rows = append(rows, a.logRoutes()...)
	}
	if a.transfers != nil {
		rows = append(rows, a.jobRoutes()...)
		rows = append(rows, a.importRoutes()...)
		rows = append(rows, a.hubRoutes()...)
		rows = append(rows, a.moveRoutes()...)
		if a.transfers.Trainer != nil {
			rows = append(rows, a.trainingRoutes()...)
		}
	}
	if a.updates != nil {
		rows = append(rows, a.updateRoutes()...)
	}
	if a.pairing != nil {
		rows = append(rows, a.pairingRoutes()...)
	}
	if a.showWindow != nil {
		rows = append(rows, route("POST /control/window/show",
			"Opens the window or brings it to the front. A second start of the app sends this to "+
				"the first.", "",
			func(*http.Request, nothing) (nothing, error) { return nothing{}, a.showWindow() }))
	}
	return append(rows, route("GET /control/openapi.json",
		"Returns this description in OpenAPI 3.1.", "",
		func(*http.Request, nothing) (map[string]any, error) { return a.openAPI(), nil }))
}
