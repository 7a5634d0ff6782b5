package convert

// The work on one file: pieces of tensors, on all cores. A piece is read, packed and written at its
// place, so pieces may end in any order.

import (
	"context"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"headroom/app/disk"
	"headroom/kernels/cpu"
)

// pieceElements is the number of elements of a piece, unless a row has more: 2 MB in bfloat16.
const pieceElements = 1 << 20

// piece is a part of a tensor: rows [from, to).
type piece struct {
	t        *tensor
	from, to int
}

// pieces divides the tensors of a file. The same plan gives the same pieces.
func (s *shard) pieces() (all []piece) {
	for _, t := range s.tensors {
		rows := max(1, pieceElements/max(t.cols, 1))
		if t.transposed { // a piece is within a matrix
			rows = t.pick.take
		}
		for from := 0; from < t.rows; from += rows {
			all = append(all, piece{t, from, min(from+rows, t.rows)})
		}
	}
	return all
}

// size returns the number of bytes that a piece has in the file.
func (p piece) size() (n int64) {
	for _, part := range p.t.used() {
		n += int64(part.rowBytes) * int64(p.to-p.from)
	}
	return n
}

// castagnoli is a CRC that processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// each calls do for each piece, on all cores, and returns the first error. It stops after an error,
// or if ctx ends.
func (c *conversion) each(ctx context.Context, pieces []piece,
	do func(i int, s *scratch) error) error {
	var next atomic.Int64
	var first atomic.Pointer[error]
	var workers sync.WaitGroup
	for range min(c.o.threads, len(pieces)) {
		workers.Go(func() {
			var s scratch
			for first.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = do(i, &s)
				}
				if err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	workers.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// compute returns the parts of a piece, in the memory of s.
func (c *conversion) compute(p piece, isa cpu.ISA, s *scratch) (out [3][]byte, err error) {
	t := p.t
	if t.format != nil {
		for i := range t.parts {
			if t.parts[i].name != "" {
				out[i] = grow(&s.out[i], t.parts[i].rowBytes*(p.to-p.from))
			}
		}
	}
	if t.calibrated {
		return out, c.readCalibrated(p, out)
	}
	if t.kept {
		lost, err := c.keepCodes(p, out, s)
		c.lost.add(c.reads.blocks[t.values[0]].Type(), lost)
		return out, err
	}
	rows, err := c.reads.rows(t, p.from, p.to, s)
	if err != nil {
		return out, err
	}
	if t.format == nil {
		out[0] = rows
		if c.keepsCodes() && !c.reads.blocks[t.values[0]].Type().Plain() {
			c.lost.add(c.reads.blocks[t.values[0]].Type(), p.measureRows(rows, s))
		}
		return out, nil
	}
	t.format.Pack(isa, packedOf(out), rows, t.dtype)
	if c.keepsCodes() {
		c.lost.add(c.reads.blocks[t.values[0]].Type(), c.measure(p, out, s))
	}
	return out, nil
}

// writeShard writes a file and returns the checksum of each piece. With replaces, it replaces the
// file of this name, which an earlier run has written. Otherwise there must be none.
func (c *conversion) writeShard(ctx context.Context, s *shard, replaces bool) (sums []uint32,
	err error) {
	path := filepath.Join(c.dest, s.name)
	const flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC | syscall.O_NOFOLLOW
	file, err := os.OpenFile(path+partial, flags, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(s.size); err != nil {
		return nil, err
	}
	if _, err := file.WriteAt(s.header, 0); err != nil {
		return nil, err
	}
	pieces, isa := s.pieces(), cpu.Best()
	sums = make([]uint32, len(pieces))
	err = c.each(ctx, pieces, func(i int, scratch *scratch) error {
		p := pieces[i]
		out, err := c.compute(p, isa, scratch)
		if err != nil {
			return err
		}
		for j := range p.t.parts {
			part := &p.t.parts[j]
			if part.name == "" {
				continue
			}
			if _, err := file.WriteAt(out[j], int64(part.at+p.from*part.rowBytes)); err != nil {
				return err
			}
			sums[i] = crc32.Update(sums[i], castagnoli, out[j])
		}
		c.progress(p.size())
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	rename := disk.Rename // replaces nothing
	if replaces {
		rename = os.Rename
	}
	if err := rename(path+partial, path); err != nil {
		return nil, err
	}
	disk.SyncDir(c.dest)
	return sums, nil
}

// isComplete reports whether a file of an earlier run has what this one would write.
func (c *conversion) isComplete(ctx context.Context, s *shard, sums []uint32) bool {
	pieces := s.pieces()
	file, err := os.Open(filepath.Join(c.dest, s.name))
	if err != nil || len(sums) != len(pieces) {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	header := make([]byte, len(s.header))
	if err != nil || info.Size() != s.size {
		return false
	}
	if _, err := io.ReadFull(file, header); err != nil || string(header) != string(s.header) {
		return false
	}
	err = c.each(ctx, pieces, func(i int, scratch *scratch) error {
		p, sum := pieces[i], uint32(0)
		for j := range p.t.parts {
			part := &p.t.parts[j]
			if part.name == "" {
				continue
			}
			b := grow(&scratch.in, part.rowBytes*(p.to-p.from))
			if _, err := file.ReadAt(b, int64(part.at+p.from*part.rowBytes)); err != nil {
				return err
			}
			sum = crc32.Update(sum, castagnoli, b)
		}
		if sum != sums[i] {
			return errDamaged
		}
		return nil
	})
	return err == nil
}
