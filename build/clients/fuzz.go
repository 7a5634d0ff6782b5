package main

// Schemathesis sends requests that it derives from an OpenAPI description, valid and invalid ones.
// None may be answered with the status 500.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// description is an OpenAPI description that the server has.
type description struct {
	path    string
	control bool     // requests need the token of the control API
	exclude []string // paths that are not tested
	least   int      // the run has at least this many requests
}

var endpoint = description{path: "/openapi.json", least: 3000,
	exclude: []string{"/api/pull"}} // it downloads from a hub

var controlAPI = description{path: "/control/openapi.json", control: true, least: 1000,
	exclude: []string{
		"/control/events",             // a stream without an end
		"/control/models/{id}/reveal", // opens a window
		"/control/stored/delete",      // ends what the other requests are about
	}}

var generated = regexp.MustCompile(`(\d+) generated`)

// run runs Schemathesis over the description.
func (d *description) run(ctx context.Context, s *session) ([]string, error) {
	p := s.bench.sdks
	scripts, err := filepath.Abs(source + "/sdks")
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(s.work, "folder")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	args := []string{"run", p.url + d.path, "--checks", "no_500", "--phases", "coverage,fuzzing",
		"--max-examples", "20", "--seed", "1", "--suppress-health-check", "all",
		"--request-timeout", "60", "--continue-on-failure", "--no-color"}
	for _, path := range d.exclude {
		args = append(args, "--exclude-path", path)
	}
	if d.control {
		args = append(args, "--header", "X-Headroom-Token:"+p.token)
	}
	mark := p.log.mark()
	out, err := s.command(ctx, []string{"SCHEMATHESIS_HOOKS=schemathesis_hooks",
		"PYTHONPATH=" + scripts, s.bench.tools.bytecode(), "HEADROOM_FUZZ_FOLDER=" + folder},
		s.path("st"), args...)
	if err != nil {
		return nil, err
	}
	for _, r := range p.log.requests(mark) {
		if r.status == 500 {
			return nil, fmt.Errorf("a request failed: %s", r.line)
		}
	}
	cases := 0
	if found := generated.FindStringSubmatch(out); found != nil {
		cases, _ = strconv.Atoi(found[1])
	}
	if cases < d.least {
		return nil, fmt.Errorf("Schemathesis sent %d requests, expected at least %d: %s", cases,
			d.least, out)
	}
	fmt.Printf("      %d requests\n", cases)
	if strings.Contains(p.log.since(mark), "panicked") {
		return nil, fmt.Errorf("a handler panicked: %s", p.log.tail())
	}
	return []string{fmt.Sprintf("at least %d requests from `%s`, none with the status 500",
		d.least, d.path)}, nil
}
