package server

// The OpenAPI 3.1 description of the endpoint (https://spec.openapis.org/oas/v3.1.1.html), for
// tools that read one. It has the routes of all dialects, with the schemas of their bodies, and the
// server's own routes.

import (
	"net/http"
	"regexp"
	"strings"
)

// object is a JSON object of the description.
type object = map[string]any

var pathParameter = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// openAPI returns the description.
func (s *Server) openAPI() object {
	paths := object{}
	add := func(pattern string, operation object) {
		method, path, _ := strings.Cut(pattern, " ")
		path = pathParameter.ReplaceAllString(path, "{$1}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = operation
	}
	for _, d := range s.dialects {
		for _, route := range d.Routes() {
			add(route.Pattern, route.operation())
		}
	}
	for pattern, summary := range map[string]string{
		"GET /health":       "Whether the server works; it needs no key.",
		"GET /ready":        "Whether a request would be answered; it needs no key.",
		"GET /metrics":      "Figures for Prometheus.",
		"GET /openapi.json": "This description.",
	} {
		add(pattern, (&Route{Pattern: pattern, Summary: summary}).operation())
	}
	return object{
		"openapi": "3.1.1",
		"info": object{"title": "Headroom's endpoint", "version": s.version,
			"description": "The APIs of OpenAI, Anthropic and Ollama. Headroom's own API for its " +
				"window is at /control/openapi.json."},
		"paths": paths,
		"components": object{"securitySchemes": object{
			"key": object{"type": "http", "scheme": "bearer"}}},
		// Programs on this computer need no key until there is one.
		"security": []any{object{}, object{"key": []any{}}},
	}
}

// operation returns the description of a route.
func (r *Route) operation() object {
	parameters := []any{}
	for _, found := range pathParameter.FindAllStringSubmatch(r.Pattern, -1) {
		parameters = append(parameters, object{"name": found[1], "in": "path", "required": true,
			"schema": object{"type": "string"}})
	}
	done := object{"description": "Done."}
	switch {
	case r.Follow != nil || r.Parse != nil && !r.Whole:
		done["description"] = "A document, or a stream."
	case r.Document != nil || r.Answer != nil || r.Parse != nil:
		done["content"] = asJSON(object{})
	}
	operation := object{"parameters": parameters, "responses": object{"200": done,
		"default": object{"description": "An error in the form of this API.",
			"content": asJSON(object{})}}}
	if r.Summary != "" {
		operation["summary"] = r.Summary
	}
	if r.Alias != "" {
		_, path, _ := strings.Cut(r.Alias, " ")
		operation["description"] = "Also at " + path + "."
	}
	if r.Body != nil {
		operation["requestBody"] = object{"required": true, "content": asJSON(r.Body())}
	}
	return operation
}

// asJSON returns the content of a JSON body with that schema.
func asJSON(schema object) object { return object{"application/json": object{"schema": schema}} }

func (s *Server) handleOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.openAPI())
}
