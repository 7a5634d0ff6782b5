// Package tuning keeps what was measured of a GPU with a model: the fastest values of the kernels'
// choices (package kernels/tune), and the bound of a command buffer.
//
// Each GPU and model has a small file. Its values are used only on the same system and with the
// same version of Headroom, because compilers and kernels change. The bound outlives updates. A
// file that is damaged or belongs to something else is ignored, and the log says so. Nothing in it
// changes an answer.
package tuning

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"headroom/app/disk"
	"headroom/kernels/gpu"
	"headroom/kernels/tune"
)

// Options choose where records are kept. The zero value keeps none and finds none.
type Options struct {
	Dir     string // folder of the files; "": none
	Version string // of Headroom
}

// Key says what a record was measured with. Model is a hash of the shapes of its operators.
type Key struct{ Device, System, Version, Model string }

// Record is what is kept. The zero value means that nothing was measured.
type Record struct {
	Key
	Values []tune.Value
	// BoundMS is the bound of a command buffer in milliseconds; 0: the usual one.
	BoundMS float64
	At      time.Time // of the measurement of Values
}

const (
	maxBytes   = 1 << 20 // of a file
	leastBound = gpu.DefaultBound / 16
)

// path returns the file of a GPU and a model.
func (o Options) path(k Key) string {
	sum := sha256.Sum256([]byte(k.Device + "\x00" + k.Model))
	return filepath.Join(o.Dir, fmt.Sprintf("tuning-%x.json", sum[:8]))
}

// Load returns the record for k. Its Values are empty if they were measured with another system or
// version.
func (o Options) Load(k Key) Record {
	if o.Dir == "" {
		return Record{Key: k}
	}
	r, err := o.read(k)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{Key: k}
	case err != nil:
		slog.Warn("what was measured of the GPU is not used: its file is damaged or belongs to "+
			"another GPU or model", "file", o.path(k), "why", err, "fix",
			"run `headroom selftest --tune` again")
		return Record{Key: k}
	case r.Key != k:
		slog.Info("the GPU's kernels are not tuned: the system or Headroom has changed since",
			"fix", "run `headroom selftest --tune` again")
		return Record{Key: k, BoundMS: r.BoundMS}
	}
	return r
}

// read reads and checks the record of a GPU and a model.
func (o Options) read(k Key) (r Record, err error) {
	data, _, err := disk.Read(o.path(k), maxBytes)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	if r.Device != k.Device || r.Model != k.Model {
		return r, fmt.Errorf("it is of %q, expected %q", r.Device, k.Device)
	}
	if b := r.BoundMS; b != 0 && !(b >= ms(leastBound) && b <= ms(gpu.DefaultBound)) {
		return r, fmt.Errorf("a bound of %g ms, expected %g to %g", b, ms(leastBound),
			ms(gpu.DefaultBound))
	}
	if r.Key == k {
		_, err = tune.Resolve(r.Values)
	}
	return r, err
}

// Save keeps a record in place of an earlier one.
func (o Options) Save(r Record) error {
	if o.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err == nil {
		err = disk.WriteFile(o.path(r.Key), append(data, '\n'), 0o600)
	}
	return err
}

// Tuned returns the values for gpu.Device.SetTuned.
func (r Record) Tuned() map[gpu.Key]int {
	tuned, err := tune.Resolve(r.Values)
	if err != nil {
		return nil // Load has checked them
	}
	return tuned
}

// Bound returns the bound of a command buffer.
func (r Record) Bound() time.Duration {
	if r.BoundMS == 0 {
		return gpu.DefaultBound
	}
	return time.Duration(r.BoundMS * float64(time.Millisecond))
}

// Halved returns r with half of its bound, but no less than a sixteenth of the usual one.
func (r Record) Halved() Record {
	r.BoundMS = ms(max(r.Bound()/2, leastBound))
	return r
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
