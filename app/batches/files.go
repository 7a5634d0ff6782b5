package batches

// Uploading, reading and deleting files.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"headroom/app/disk"
	"headroom/engine/generate"
	"headroom/engine/problem"
	"headroom/engine/seal"
	"headroom/engine/server"
)

// Limits of a form.
const (
	maxParts     = 16
	maxField     = 256     // bytes of a field that is no file
	maxName      = 255     // bytes of a file's name
	minFreeBytes = 1 << 30 // of the disk, beside a file of the largest size
)

// form is a form with a file, as it is read.
type form struct {
	purpose, anchor, seconds string
	name                     string
	file                     bool // it had one
}

// readForm reads a form. It passes the content of the file to save, which must read all of it. The
// fields may come in any order.
func readForm(r *http.Request, save func(content io.Reader) error) (f form, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return f, problem.New(problem.BadRequest, "The request has no form with a file",
			fmt.Sprintf("its Content-Type is %.80q, expected multipart/form-data with a boundary",
				r.Header.Get("Content-Type")), "Send a form with the fields purpose and file.")
	}
	fields := map[string]*string{"purpose": &f.purpose, "expires_after[anchor]": &f.anchor,
		"expires_after[seconds]": &f.seconds}
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		switch {
		case err == io.EOF:
			return f, f.check()
		case err != nil:
			return f, err
		case n == maxParts:
			return f, problem.New(problem.BadRequest, "The form has too many fields",
				fmt.Sprintf("the limit is %d", maxParts), "")
		}
		name := part.FormName()
		field := fields[name]
		switch {
		case name == "file" && f.file:
			return f, badParam("file", "there are two, expected one")
		case name == "file":
			f.file = true
			if f.name, err = fileName(part); err != nil {
				return f, err
			}
			if err := save(part); err != nil {
				return f, err
			}
		case field == nil:
			return f, generate.Unsupported(fmt.Sprintf("%.80s", name), "the form has no such field")
		default:
			text, err := io.ReadAll(io.LimitReader(part, maxField+1))
			if err != nil {
				return f, err
			}
			if len(text) > maxField {
				return f, badParam(name, "must have at most %d bytes", maxField)
			}
			*field = string(text)
		}
	}
}

// check checks the fields of a whole form.
func (f *form) check() error {
	switch {
	case !f.file:
		return badParam("file", "is missing")
	case f.purpose == "":
		return badParam("purpose", `is missing, expected "batch"`)
	case f.purpose != purposeInput:
		return generate.Unsupported("purpose", `must be "batch", got %.80q`, f.purpose)
	case f.anchor != "" && f.anchor != "created_at":
		return badParam("expires_after[anchor]", `must be "created_at", got %.80q`, f.anchor)
	}
	_, err := f.keep()
	return err
}

// keep returns how long the file is kept.
func (f *form) keep() (time.Duration, error) {
	if f.seconds == "" {
		return keepTime, nil
	}
	n, err := strconv.Atoi(f.seconds)
	if d := time.Duration(n) * time.Second; err == nil && n <= int(keepTime.Seconds()) &&
		d >= minKeep {
		return d, nil
	}
	return 0, badParam("expires_after[seconds]", "must be between %d and %d, got %.80q",
		int(minKeep.Seconds()), int(keepTime.Seconds()), f.seconds)
}

// fileName returns the name that a client has given a file, for lists alone.
func fileName(part *multipart.Part) (string, error) {
	given := part.FileName()
	name := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, path.Base(strings.ReplaceAll(strings.ToValidUTF8(given, ""), `\`, "/")))
	switch {
	case given == "":
		return "", badParam("file", "has no file name. Send it as a file with a name, such as "+
			"requests.jsonl")
	case slices.Contains([]string{"", ".", "..", "/"}, strings.TrimSpace(name)):
		return "", badParam("file", "has the file name %.80q. Send it with another name, such as "+
			"requests.jsonl", given)
	}
	for len(name) > maxName {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	return name, nil
}

// formProblem returns the error of reading a form as a client gets it. The texts of mime/multipart
// say what its code expected, and not what is wrong with the form.
func formProblem(err error) error {
	var known *problem.Problem
	var network net.Error
	switch {
	case errors.As(err, &known), errors.As(err, &network), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.Canceled):
		return server.BodyProblem(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problem.New(problem.BadRequest, "The form ends too early",
			"the boundary at its end is missing", "Send all of it.")
	}
	return problem.New(problem.BadRequest, "The form cannot be read",
		"a part of it has no valid header or boundary", "Send multipart/form-data (RFC 7578).")
}

// upload stores the file of a form.
func (s *Store) upload(r *http.Request, owner string) (File, error) {
	var key seal.Key
	left, err := opened(s, func() (int64, error) {
		key = s.key
		return s.room(owner)
	})
	if err != nil {
		return File{}, err
	}
	if free, err := disk.FreeBytes(s.o.Dir); err == nil && free < minFreeBytes+s.o.fileBytes {
		return File{}, problem.New(problem.DiskFull, "The disk is too full for the file",
			problem.Memory(free)+" are free", "Free some space, or delete files.")
	}
	f := s.newFile(owner, "", purposeInput)
	limit := min(s.o.fileBytes, left)
	form, err := readForm(r, func(content io.Reader) error {
		w, err := create(s.path(f.ID), key, f.ID)
		if err != nil {
			return unwritable(err)
		}
		n, err := io.CopyBuffer(w, &filled{io.LimitReader(content, limit+1)},
			make([]byte, chunkBytes))
		f.Bytes = n
		failed := w.err
		closed := w.close()
		switch {
		case failed != nil || err == nil && closed != nil:
			return unwritable(errors.Join(failed, closed))
		case err != nil:
			return err
		case n > limit && left < s.o.fileBytes:
			return full(owner, problem.Memory(maxBytes))
		case n > limit:
			return problem.New(problem.TooLarge, "The file is too large",
				"the limit is "+problem.Memory(s.o.fileBytes), "Split it into several batches.")
		}
		return nil
	})
	if err == nil && f.Bytes == 0 {
		err = badParam("file", "is empty")
	}
	if err == nil {
		keep, _ := form.keep()
		f.Filename, f.ExpiresAt = form.name, f.CreatedAt+int64(keep.Seconds())
		err = s.add(f, key)
	}
	if err != nil {
		_ = destroy(s.path(f.ID))
		return File{}, formProblem(err)
	}
	return f.File, nil
}

// filled fills each read, so that records are not shorter than necessary.
type filled struct{ io.Reader }

func (f *filled) Read(p []byte) (int, error) {
	n, err := io.ReadFull(f.Reader, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
		if n == 0 {
			err = io.EOF
		}
	}
	return n, err
}

// add adds an uploaded file to the index, unless others have taken its room meanwhile, or all was
// forgotten.
func (s *Store) add(f *storedFile, key seal.Key) error {
	_, err := opened(s, func() (any, error) {
		left, err := s.room(f.Owner)
		switch {
		case err != nil:
			return nil, err
		case f.Bytes > left:
			return nil, full(f.Owner, problem.Memory(maxBytes))
		case key != s.key:
			return nil, problem.New(problem.Changed, "Everything was deleted meanwhile", "",
				"Try again.")
		}
		s.index.Files = append(s.index.Files, f)
		if err = s.saveNew(); err != nil {
			s.index.Files = s.index.Files[:len(s.index.Files)-1]
		}
		return nil, err
	})
	return err
}

// room returns how many bytes an owner may store in one more file. The caller holds mu.
func (s *Store) room(owner string) (int64, error) {
	left, n := int64(maxBytes), 0
	for _, f := range s.index.Files {
		if f.Owner == owner {
			left, n = left-f.Bytes, n+1
		}
	}
	if n >= maxFiles {
		return 0, full(owner, fmt.Sprint(maxFiles, " files"))
	}
	if left <= 0 {
		return 0, full(owner, problem.Memory(maxBytes))
	}
	return left, nil
}

func full(owner, what string) error {
	of := "All requests without a named key have"
	if owner != "" {
		of = "This API key has"
	}
	return problem.New(problem.Exists, of+" stored too much", "the limit is "+what,
		"Delete files that you do not need.")
}

// file returns a file that its owner may see. The caller holds mu.
func (s *Store) file(owner, id string) (*storedFile, error) {
	f := s.index.file(id)
	if f == nil || f.Owner != owner || f.Batch != "" {
		return nil, problem.New(problem.NotFound, fmt.Sprintf("There is no file %.80q", id),
			"files are kept for 30 days, and belong to the API key that has made them", "")
	}
	return f, nil
}

// files returns the files of an owner.
func (s *Store) files(owner, purpose string, p paging) (List, error) {
	return opened(s, func() (List, error) {
		list := []File{}
		for _, f := range s.index.Files {
			if f.Owner == owner && f.Batch == "" && (purpose == "" || purpose == f.Purpose) {
				list = append(list, f.File)
			}
		}
		// An output comes into the list when its batch has ended.
		slices.SortStableFunc(list, func(a, b File) int { return int(a.CreatedAt - b.CreatedAt) })
		return page(p, list, func(f File) string { return f.ID })
	})
}

// getFile returns a file.
func (s *Store) getFile(owner, id string) (File, error) {
	return opened(s, func() (File, error) {
		f, err := s.file(owner, id)
		if err != nil {
			return File{}, err
		}
		return f.File, nil
	})
}

// read opens the content of a file.
func (s *Store) read(owner, id string) (f File, content *reader, err error) {
	content, err = opened(s, func() (*reader, error) {
		stored, err := s.file(owner, id)
		if err != nil {
			return nil, err
		}
		f = stored.File
		r, err := open(s.path(id), s.key, id)
		if err != nil {
			return nil, problem.Wrap(problem.Internal, err, "The file cannot be read", "")
		}
		return r, nil
	})
	return f, content, err
}

// deleteFile deletes a file.
func (s *Store) deleteFile(owner, id string) (Deleted, error) {
	return opened(s, func() (Deleted, error) {
		f, err := s.file(owner, id)
		if err != nil {
			return Deleted{}, err
		}
		if b := s.user(id); b != nil {
			return Deleted{}, problem.New(problem.Exists, "The file is in use",
				"the batch "+b.ID+" reads it", "Cancel the batch first, or wait for its end.")
		}
		if err := destroy(s.path(id)); err != nil {
			return Deleted{}, problem.Wrap(problem.Internal, err, "The file cannot be deleted",
				"Check the permissions of Headroom's folders.")
		}
		s.index.Files = slices.DeleteFunc(s.index.Files,
			func(o *storedFile) bool { return o == f })
		return Deleted{ID: id, Object: "file", Deleted: true}, s.save()
	})
}
