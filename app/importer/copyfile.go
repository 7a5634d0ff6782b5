package importer

// Copying one file. Bytes are written in pieces. Each piece is synced and read back from the disk,
// and the SHA-256 of the copy is compared with the original's. A blob of Hugging Face's cache is
// also compared with the checksum in its name.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"path/filepath"

	"headroom/app/disk"
	"headroom/app/jobs"
	"headroom/engine/problem"
)

const (
	copyBufferBytes = 1 << 20
	pieceBytes      = 64 << 20 // written between verifications
)

// cloneAll clones files until the file system cannot clone one. It returns that file and all after
// it, which have to be copied.
func (i *Importer) cloneAll(ctx context.Context, files []source, j *journal,
	p *jobs.Progress) ([]source, error) {
	clone := i.options.clone
	if clone == nil {
		clone = disk.Clone
	}
	for n, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := filepath.Join(j.dir, f.rel)
		if err := j.prepare(f); err != nil {
			return nil, err
		}
		if clone(f.path, to) != nil {
			return files[n:], nil
		}
		_ = os.Chmod(to, 0o644)
		_ = os.Chtimes(to, f.changed, f.changed)
		if err := j.add(f); err != nil {
			return nil, err
		}
		p.Add(f.size)
	}
	return nil, nil
}

// copyFile copies one file from the start.
func (i *Importer) copyFile(ctx context.Context, f source, j *journal,
	p *jobs.Progress) (err error) {
	if err := j.prepare(f); err != nil {
		return err
	}
	in, err := os.Open(f.path)
	if err != nil {
		return unreadable(err)
	}
	defer in.Close()
	out, err := j.root.OpenFile(f.rel, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	counted := int64(0)
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err != nil {
			p.Add(-counted)
			_ = j.remove(f.rel)
		}
	}()
	c := copier{i: i, in: in, out: out, read: sha256.New(), back: sha256.New(),
		buffer: make([]byte, copyBufferBytes)}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Phase("copying", f.rel)
		n, err := c.piece(ctx, func(n int64) { p.Add(n); counted += n })
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	sum := c.read.Sum(nil)
	if c.at != f.size {
		return problem.New(problem.ModelBroken, "The model changed during the copy",
			shown(f.rel)+" is different now", "Import it again when nothing writes to it.")
	}
	if f.sha256 != "" && hex.EncodeToString(sum) != f.sha256 {
		return &refusedError{problem.New(problem.ModelBroken, "The model is damaged",
			shown(f.rel)+" does not have the checksum of its download",
			"Download or convert the model again.")}
	}
	_ = j.root.Chtimes(f.rel, f.changed, f.changed)
	return j.add(f)
}

// copier copies one file in pieces.
type copier struct {
	i          *Importer
	in, out    *os.File
	read, back hash.Hash // of the bytes read from the original and from the copy
	at         int64
	buffer     []byte
}

// piece copies and verifies up to pieceBytes. It returns 0 at the end of the file.
func (c *copier) piece(ctx context.Context, moved func(int64)) (int64, error) {
	from := c.at
	for c.at-from < pieceBytes {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := c.in.Read(c.buffer)
		if n > 0 {
			c.read.Write(c.buffer[:n])
			if err := c.write(c.buffer[:n]); err != nil {
				return 0, err
			}
			c.at += int64(n)
			moved(int64(n))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, unreadable(err)
		}
	}
	if c.at == from {
		return 0, nil
	}
	if err := c.out.Sync(); err != nil {
		return 0, err
	}
	disk.DropCache(c.out)
	if _, err := io.CopyBuffer(plainWriter{c.back}, io.NewSectionReader(c.out, from, c.at-from),
		c.buffer); err != nil {
		return 0, err
	}
	if !bytes.Equal(c.read.Sum(nil), c.back.Sum(nil)) {
		return 0, problem.New(problem.ModelBroken, "The copy could not be verified",
			"the disk returned other bytes than were written",
			"Check the disk, then import the model again.")
	}
	return c.at - from, nil
}

func (c *copier) write(data []byte) error {
	if c.i.options.write != nil {
		if err := c.i.options.write(); err != nil {
			return err
		}
	}
	_, err := c.out.Write(data)
	return err
}

// plainWriter has only the method Write, so that io.CopyBuffer uses its buffer.
type plainWriter struct{ io.Writer }
