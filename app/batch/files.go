package batch

// The two files: what is checked of the input, and what is kept of the output.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gofrs/flock"

	"headroom/app/disk"
	"headroom/engine/jsonbody"
	"headroom/engine/problem"
)

// maxIDBytes is the longest custom_id.
const maxIDBytes = 512

// Named is a model that requests name, and the lines of the first ones.
type Named struct {
	Model string
	Lines []int // at most maxNamedLines
	Count int   // of all its requests
}

const maxNamedLines = 3

// String says which lines name the model.
func (n Named) String() string {
	model := "no model"
	if n.Model != "" {
		model = strconv.Quote(n.Model)
	}
	lines := strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Lines), " ", ", "), "[]")
	switch more := n.Count - len(n.Lines); {
	case more > 0:
		return fmt.Sprintf("%s (lines %s and %d more)", model, lines, more)
	case n.Count == 1:
		return fmt.Sprintf("%s (line %s)", model, lines)
	}
	return fmt.Sprintf("%s (lines %s)", model, lines)
}

// Models checks the whole file in and returns the models that its requests name, in the order of
// their first lines. Requests that name none are those of the name "". The error is a Problem.
func Models(in string) (all []Named, err error) {
	if err := regular(in); err != nil {
		return nil, err
	}
	input, err := os.Open(in)
	if err != nil {
		return nil, unreadable(in, err)
	}
	defer input.Close()
	at := map[string]int{}
	_, err = check(input, func(q Request, line int) {
		name := q.Model()
		i, known := at[name]
		if !known {
			i = len(all)
			at[name], all = i, append(all, Named{Model: name})
		}
		if all[i].Count++; all[i].Count <= maxNamedLines {
			all[i].Lines = append(all[i].Lines, line)
		}
	})
	return all, err
}

// check reads the whole input and returns the line of each custom_id. It calls each with each
// request. The error is a Problem that names the first line that is wrong.
func check(input io.Reader, each func(q Request, line int)) (lineOf map[string]int, err error) {
	lineOf = map[string]int{}
	all := NewLines(input)
	for all.Next() {
		q, why := Parse(all.Line)
		if why == "" && lineOf[q.CustomID] > 0 {
			why = fmt.Sprintf("its custom_id %q is that of line %d", q.CustomID, lineOf[q.CustomID])
		}
		if why != "" {
			return nil, problem.New(problem.BadRequest,
				fmt.Sprintf("Line %d of the batch is not a request", all.Number), why,
				`Each line is an object such as {"custom_id": "1", "method": "POST", "url": `+
					`"/v1/chat/completions", "body": {"messages": [...]}}.`)
		}
		lineOf[q.CustomID] = all.Number
		each(q, all.Number)
	}
	switch {
	case all.Err != nil:
		return nil, problem.Wrap(problem.BadRequest, all.Err, "The batch cannot be read", "")
	case len(lineOf) == 0:
		return nil, problem.New(problem.BadRequest, "The batch is empty", "it has no line", "")
	}
	return lineOf, nil
}

// Parse reads a line of the input. The body of q is a part of line. why says what is wrong with it;
// "": nothing. It is cheap: what the body has is not looked at.
func Parse(line []byte) (q Request, why string) {
	if !utf8.Valid(line) {
		return q, "it is not valid UTF-8"
	}
	// Check is faster and refuses more: the server says then what is wrong with the request.
	if jsonbody.Check(line) != nil && !json.Valid(line) {
		return q, NotJSON
	}
	if why := q.fill(line); why != "" {
		return q, why
	}
	switch {
	case q.CustomID == "":
		return q, "it has no custom_id"
	case len(q.CustomID) > maxIDBytes:
		return q, fmt.Sprintf("its custom_id has %d bytes, expected at most %d", len(q.CustomID),
			maxIDBytes)
	case q.Method != "" && q.Method != http.MethodPost:
		return q, fmt.Sprintf("its method is %q, expected POST", q.Method)
	case !slices.Contains(Endpoints, q.URL):
		return q, fmt.Sprintf("its url is %q, expected %s", q.URL, strings.Join(Endpoints, ", "))
	case len(q.Body) == 0 || q.Body[0] != '{':
		return q, "its body is missing or no object"
	}
	return q, ""
}

// NotJSON is what Parse says of a line that is no JSON.
const NotJSON = "it is not JSON"

// fill reads the members of a line, which is JSON. Others are ignored.
func (q *Request) fill(line []byte) (why string) {
	if line[0] != '{' {
		return "it is no object"
	}
	if err := jsonbody.Members(line, func(name string, value []byte) *jsonbody.Error {
		var text *string
		switch name {
		case "custom_id":
			text = &q.CustomID
		case "method":
			text = &q.Method
		case "url":
			text = &q.URL
		case "body":
			q.Body = value
		}
		if text != nil && !read(value, text) {
			why = fmt.Sprintf("its %s is %s, expected a string", name, jsonbody.Shorten(value))
		}
		return nil
	}); err != nil {
		return err.Error()
	}
	return why
}

// read reads a text, which may be null, and reports whether it is one.
func read(value []byte, text *string) bool {
	if value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		*text = string(value[1 : len(value)-1])
		return true
	}
	return json.Unmarshal(value, text) == nil
}

// regular returns a Problem unless a path is a file, or leads to one.
func regular(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return problem.New(problem.BadRequest, path+" is no file", "it is a folder, a pipe or a "+
			"device", "Name a file.")
	}
	return nil
}

// resume opens the output for what follows, and keeps other runs from it until unlock is called. If
// an earlier run has written it, the answers of requests stay, except those that can be different
// next time: of a model that was busy or did not load. answered has the custom_ids of those that
// stay, true for answers and false for errors. A line that was cut off is removed. A file with
// anything else, or with answers to requests that lineOf lacks, is refused and not touched.
func resume(in, out string, lineOf map[string]int) (file *os.File, answered map[string]bool,
	unlock func(), err error) {
	if target, err := filepath.EvalSymlinks(out); err == nil {
		out = target // a link stays one
	}
	mode := os.FileMode(0o600)
	if info, err := os.Stat(out); err == nil {
		if a, err := os.Stat(in); err == nil && os.SameFile(a, info) {
			return nil, nil, nil, problem.New(problem.BadRequest,
				"The answers would replace the batch", "both are the file "+in,
				"Name another file for the answers.")
		}
		if err := regular(out); err != nil {
			return nil, nil, nil, err
		}
		mode = info.Mode().Perm()
	}
	var locks []*flock.Flock
	release := func() {
		for _, l := range locks {
			_ = l.Close()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	lock := func() error {
		l, err := disk.TryLock(out, mode)
		if errors.Is(err, disk.ErrLocked) {
			return problem.New(problem.Busy, "Another run writes to "+out, "",
				"Wait until it has ended.")
		}
		if err != nil {
			return notWritten(err)
		}
		locks = append(locks, l)
		return nil
	}
	if err := lock(); err != nil {
		return nil, nil, nil, err
	}
	before, err := os.Open(out)
	if err != nil {
		return nil, nil, nil, unreadable(out, err)
	}
	defer before.Close()
	old, err := readAnswers(out, before, lineOf)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(old.dropped) == 0 {
		err = os.Truncate(out, old.end)
	} else if err = disk.WriteFrom(out, mode, func(w io.Writer) error {
		return copyWithout(w, before, old)
	}); err == nil {
		if err := lock(); err != nil { // it is another file now
			return nil, nil, nil, err
		}
	}
	if err != nil {
		return nil, nil, nil, notWritten(err)
	}
	if file, err = os.OpenFile(out, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, nil, nil, notWritten(err)
	}
	return file, old.answered, release, nil
}

// lineBegin begins every line of the output.
const lineBegin = `{"id":"` + linePrefix

// earlier is what the output of an earlier run has.
type earlier struct {
	answered map[string]bool // see resume
	dropped  []span          // lines that do not stay
	end      int64           // of the last whole line
}

// span is a part of a file.
type span struct{ from, to int64 }

// readAnswers reads the output, of which it has one line in memory at a time.
func readAnswers(name string, file io.Reader, lineOf map[string]int) (a earlier, err error) {
	a.answered = map[string]bool{}
	in := bufio.NewReaderSize(file, 64<<10)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return a, unreadable(name, err)
		}
		if len(line) == 0 {
			return a, nil
		}
		if n := min(len(line), len(lineBegin)); err == io.EOF &&
			string(line[:n]) == lineBegin[:n] {
			return a, nil // cut off
		}
		from := a.end
		a.end += int64(len(line))
		var r Result
		if json.Unmarshal(line, &r) != nil || !strings.HasPrefix(r.ID, linePrefix) ||
			r.CustomID == "" {
			return a, problem.New(problem.Exists,
				"The file for the answers has something else",
				fmt.Sprintf("line %d of %s is no answer of a batch", number, name),
				"Name another file. Nothing was changed.")
		}
		if r.Response != nil && (r.Response.StatusCode == http.StatusTooManyRequests ||
			r.Response.StatusCode >= http.StatusInternalServerError) {
			a.dropped = append(a.dropped, span{from, a.end})
			continue
		}
		if lineOf[r.CustomID] == 0 {
			return a, problem.New(problem.Exists,
				"The file for the answers is of another batch",
				fmt.Sprintf("line %d of %s answers %q, which this batch does not ask", number,
					name, r.CustomID), "Name another file. Nothing was changed.")
		}
		a.answered[r.CustomID] = r.OK()
	}
}

// copyWithout copies the lines of the output that stay.
func copyWithout(w io.Writer, file io.ReaderAt, a earlier) error {
	from := int64(0)
	for _, d := range append(a.dropped, span{a.end, a.end}) {
		if _, err := io.Copy(w, io.NewSectionReader(file, from, d.from-from)); err != nil {
			return err
		}
		from = d.to
	}
	return nil
}

func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.NotFound, "There is no file "+name, "", "")
	}
	return problem.Wrap(problem.BadRequest, err, name+" cannot be read", "")
}

func notWritten(err error) error {
	if disk.IsFull(err) {
		return problem.Wrap(problem.DiskFull, err, "The disk is too full for the answers",
			"Free some space, then run it again: what is answered stays.")
	}
	return problem.Wrap(problem.Internal, err, "The answers cannot be written",
		"Check the permissions of their folder.")
}

func changed(line int) error {
	return problem.New(problem.BadRequest, "The batch was changed while it ran",
		fmt.Sprintf("line %d is no longer a request", line),
		"Run it again: what is answered stays.")
}
