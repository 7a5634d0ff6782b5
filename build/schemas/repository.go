package main

// Files of a git repository at a commit, which is fetched once.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// repository is one at a fixed commit.
type repository struct {
	url, commit string
	folder      string // the git directory
}

// The suites. Neither is copied into this repository.
var (
	testSuite = repository{
		url:    "https://github.com/json-schema-org/JSON-Schema-Test-Suite",
		commit: "44401e0c",
		folder: "bin/schemas/suite.git",
	}
	benchSuite = repository{
		url:    "https://github.com/guidance-ai/jsonschemabench",
		commit: "ba103c73",
		folder: "bin/schemas/bench.git",
	}
)

// fetch fetches the repository unless its folder is there.
func (r repository) fetch() error {
	if _, err := os.Stat(filepath.Join(r.folder, "HEAD")); err == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "schemas: fetching", r.url)
	cmd := exec.Command("git", "clone", "--quiet", "--bare", r.url, r.folder)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch %s: %w", r.url, err)
	}
	return nil
}

type file struct {
	path string
	data []byte
}

// files returns the files under a path in the order of their names. Those that the repository
// lacks, because it is a partial copy, are left out and counted.
func (r repository) files(under string) (files []file, missing int, err error) {
	cmd := exec.Command("git", "-C", r.folder, "ls-tree", "-r", "-z", r.commit, "--", under)
	list, err := cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("list %s of %s: %w", under, r.url, err)
	}
	var objects bytes.Buffer
	for entry := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		about, path, ok := strings.Cut(entry, "\t")
		if fields := strings.Fields(about); ok && len(fields) == 3 {
			files = append(files, file{path: path})
			fmt.Fprintln(&objects, fields[2])
		}
	}
	cmd = exec.Command("git", "-C", r.folder, "cat-file", "--batch")
	cmd.Stdin = &objects
	contents, err := cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("read %s of %s: %w", under, r.url, err)
	}
	in := bufio.NewReader(bytes.NewReader(contents))
	found := files[:0]
	for _, f := range files {
		header, err := in.ReadString('\n')
		if err != nil {
			return nil, 0, fmt.Errorf("read %s of %s: %w", f.path, r.url, err)
		}
		fields := strings.Fields(header)
		if fields[len(fields)-1] == "missing" {
			missing++
			continue
		}
		size, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			return nil, 0, fmt.Errorf("read %s of %s: %w", f.path, r.url, err)
		}
		f.data = make([]byte, size)
		if _, err := io.ReadFull(in, f.data); err != nil {
			return nil, 0, err
		}
		if _, err := in.Discard(1); err != nil {
			return nil, 0, err
		}
		found = append(found, f)
	}
	return found, missing, nil
}
