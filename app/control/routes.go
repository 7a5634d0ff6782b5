package control

// The API as data: one row for each address, with the types of what is sent and of what comes back.
// The mux is built from the rows, and so is the OpenAPI document (openapi.go): neither can know of
// an address that the other does not.

import (
	"cmp"
	"net/http"
	"reflect"
)

// Route is one address of the API.
type Route struct {
	Pattern string       // as http.ServeMux takes it: "GET /api/cache/{key}"
	Does    string       // one sentence for people
	Queries []Query      // that may stand behind the path
	Status  int          // of success
	Body    reflect.Type // of what is sent as JSON; nil: nothing is
	Answer  reflect.Type // of what comes back as JSON; nil: nothing does, or events
	Events  bool         // what comes back is a stream of server-sent events
	most    int64        // bytes of a body; 0: maxBodyBytes
	serve   func(w http.ResponseWriter, r *http.Request, row Route)
}

// Query is a query parameter.
type Query struct{ Name, Does string }

// nothing is the type of a body or an answer that there is none of.
type nothing struct{}

// route is a row whose handler takes the body and gives the document to answer with; its errors are
// Problems. example is a body that makes sense, for those who send one that does not.
func route[Body, Answer any](pattern, does, example string,
	do func(r *http.Request, body Body) (Answer, error)) Route {
	row := Route{Pattern: pattern, Does: does, Status: http.StatusOK,
		Body: typeUnlessNothing[Body](), Answer: typeUnlessNothing[Answer]()}
	if row.Answer == nil {
		row.Status = http.StatusNoContent
	}
	row.serve = func(w http.ResponseWriter, r *http.Request, row Route) {
		var body Body
		if row.Body != nil {
			if err := readBody(w, r, cmp.Or(row.most, maxBodyBytes), &body, example); err != nil {
				refuse(w, err)
				return
			}
		}
		switch document, err := do(r, body); {
		case err != nil:
			refuse(w, err)
		case row.Answer == nil:
			w.WriteHeader(row.Status)
		default:
			write(w, row.Status, document)
		}
	}
	return row
}

func typeUnlessNothing[T any]() reflect.Type {
	if t := reflect.TypeFor[T](); t != reflect.TypeFor[nothing]() {
		return t
	}
	return nil
}

// answering is the row with another status of success.
func (r Route) answering(status int) Route {
	r.Status = status
	return r
}

// upTo is the row with a longer body.
func (r Route) upTo(bytes int64) Route {
	r.most = bytes
	return r
}

// with is the row with query parameters.
func (r Route) with(queries ...Query) Route {
	r.Queries = queries
	return r
}

// Routes are the rows that this API serves: some depend on its options.
func (a *API) Routes() []Route {
	rows := append(a.engineRoutes(), a.modelRoutes()...)
	rows = append(rows, a.cacheRoutes()...)
	rows = append(rows, a.memoryRoutes()...)
	if a.settings != nil {
		rows = append(rows, a.generalRoutes()...)
		rows = append(rows, a.settingsRoutes()...)
		rows = append(rows, a.modelSettingsRoutes()...)
	}
	if a.chats != nil {
		rows = append(rows, a.chatRoutes()...)
	}
	if a.logs != nil {
		rows = append(rows, a.logRoutes()...)
	}
	if a.transfers != nil {
		rows = append(rows, a.jobRoutes()...)
		rows = append(rows, a.importRoutes()...)
		rows = append(rows, a.hubRoutes()...)
		rows = append(rows, a.moveRoutes()...)
	}
	if a.showWindow != nil {
		rows = append(rows, route("POST /api/window/show",
			"Opens the window or raises it; a second start of the agent sends this to the first.",
			"",
			func(*http.Request, nothing) (nothing, error) { return nothing{}, a.showWindow() }))
	}
	return append(rows, route("GET /api/openapi.json", "This description, in OpenAPI 3.1.", "",
		func(*http.Request, nothing) (map[string]any, error) { return a.openAPI(), nil }))
}
