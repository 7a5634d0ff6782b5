package hub

// The files of a folder that is uploaded. Hidden files are not sent: they are Finder's, git's or an
// unfinished run's. Nothing outside the folder is sent either, wherever a link leads, but for the
// blobs of the hub's cache, which its snapshots link to.

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"headroom/app/jobs"
	"headroom/engine/problem"
)

// localFile is a file of the folder.
type localFile struct {
	path     string // in the repository, with "/"
	at       string // on this machine
	size     int64
	modified time.Time
	sha256   string // hexadecimal
	blob     string // git's SHA-1; "": the file is too large for git, see maxBlobBytes
}

const (
	// maxBlobBytes is the largest file that may be in git itself. The hub takes less.
	maxBlobBytes = 64 << 20
	// sampleBytes of a file tell the hub whether it is text.
	sampleBytes = 512
)

// folderFiles returns the files of a folder, sorted by path, and the names of what is not sent. The
// error is a Problem.
func folderFiles(dir string) (files []*localFile, hidden []string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, nil, problem.New(problem.NotFound, "There is no folder "+dir, "",
			"Check the path.")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = filepath.WalkDir(real, func(at string, d fs.DirEntry, err error) error {
			if err != nil || at == real {
				return err
			}
			rel, err := filepath.Rel(real, at)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(rel)
			if strings.HasPrefix(d.Name(), ".") {
				hidden = append(hidden, name)
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if d.IsDir() {
				return nil
			}
			f, err := folderFile(real, at, name)
			if err == nil {
				files = append(files, f)
			}
			return err
		})
	}
	if err != nil {
		return nil, nil, problem.Wrap(problem.BadRequest, err, "The folder cannot be uploaded",
			"Check its files.")
	}
	if err := checkFolder(dir, files); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(files, func(a, b *localFile) int { return strings.Compare(a.path, b.path) })
	return files, hidden, nil
}

// checkFolder refuses folders that have no model, such as a home folder that was meant to be one
// below it.
func checkFolder(dir string, files []*localFile) error {
	isModel := slices.ContainsFunc(files, func(f *localFile) bool {
		return f.path == "config.json" || f.path == "adapter_config.json"
	})
	switch {
	case !isModel:
		return problem.New(problem.BadRequest, "There is no model in "+dir,
			"it has no config.json, nor adapter_config.json",
			"Name the folder of a model or an adapter.")
	case len(files) > maxFiles:
		return problem.New(problem.BadRequest, "There are too many files in "+dir,
			fmt.Sprintf("it has %d, and %d are possible", len(files), maxFiles),
			"Name the folder of one model.")
	}
	return nil
}

// folderFile returns a file of the folder.
func folderFile(dir, at, name string) (*localFile, error) {
	if !safePath(name) {
		return nil, fmt.Errorf("the name %q cannot be in a repository", name)
	}
	target, err := filepath.EvalSymlinks(at)
	if err != nil {
		return nil, err
	}
	if !inFolder(dir, target) && !inFolder(cacheBlobs(dir), target) {
		return nil, fmt.Errorf("%s is a link to a file outside the folder", name)
	}
	info, err := os.Stat(target)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return &localFile{path: name, at: target, size: info.Size(), modified: info.ModTime()}, nil
}

func inFolder(dir, target string) bool {
	return dir != "" && strings.HasPrefix(target, dir+string(filepath.Separator))
}

// cacheBlobs returns the folder of the blobs that a snapshot of the hub's cache links to, or "" if
// dir is none: ORG/snapshots/COMMIT beside ORG/blobs.
func cacheBlobs(dir string) string {
	snapshots := filepath.Dir(dir)
	if filepath.Base(snapshots) != "snapshots" || !commitForm.MatchString(filepath.Base(dir)) {
		return ""
	}
	return filepath.Join(filepath.Dir(snapshots), "blobs")
}

// check returns a Problem if the file has changed since it was listed.
func (f *localFile) check() error {
	info, err := os.Stat(f.at)
	if err == nil && info.Size() == f.size && info.ModTime().Equal(f.modified) {
		return nil
	}
	if err == nil {
		err = errors.New("its size or its time is another one")
	}
	return problem.Wrap(problem.Changed, err, f.path+" was changed during the upload",
		"Wait until no program writes it, then run the same command again.")
}

// hashFiles computes the sums of all files, a few at a time.
func (c *Client) hashFiles(ctx context.Context, files []*localFile, p *jobs.Progress) error {
	total := int64(0)
	for _, f := range files {
		total += f.size
	}
	p.Total(total)
	return c.concurrently(ctx, len(files), func(ctx context.Context, i int) error {
		p.Phase("reading", files[i].path)
		if err := files[i].hash(ctx, p); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return problem.Wrap(problem.BadRequest, err, files[i].path+" cannot be read",
				"Check its permissions.")
		}
		return files[i].check()
	})
}

// hash computes the sums of the file.
func (f *localFile) hash(ctx context.Context, p *jobs.Progress) error {
	file, err := os.Open(f.at)
	if err != nil {
		return err
	}
	defer file.Close()
	large := sha256.New()
	sums, git := []io.Writer{large}, hash.Hash(nil)
	if f.size <= maxBlobBytes {
		git = sha1.New()
		fmt.Fprintf(git, "blob %d\x00", f.size)
		sums = append(sums, git)
	}
	buffer := make([]byte, 1<<20)
	for all := io.MultiWriter(sums...); ; {
		n, err := file.Read(buffer)
		_, _ = all.Write(buffer[:n]) // a hash does not fail
		p.Add(int64(n))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF:
			f.sha256 = hex.EncodeToString(large.Sum(nil))
			if git != nil {
				f.blob = hex.EncodeToString(git.Sum(nil))
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// is reports whether the repository's file has the same content.
func (f *localFile) is(there File) bool {
	if there.Size >= 0 && there.Size != f.size {
		return false
	}
	return there.Sum != "" && (there.Sum == f.sha256 || there.Sum == f.blob)
}

// read returns the content of a file of at most maxBlobBytes.
func (f *localFile) read() ([]byte, error) {
	text, err := os.ReadFile(f.at)
	if err == nil && int64(len(text)) != f.size {
		return nil, f.check()
	}
	return text, err
}

// sample returns the beginning of the file.
func (f *localFile) sample() ([]byte, error) {
	file, err := os.Open(f.at)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, sampleBytes))
}

// isWeightsName reports whether loaders read weights of this name, needed or not: mlx-lm reads
// every model*.safetensors.
func isWeightsName(name string) bool {
	return isWeights(name) && strings.HasPrefix(path.Base(name), "model")
}
