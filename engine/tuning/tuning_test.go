package tuning

import (
	"bytes"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"headroom/kernels/gpu"
	"headroom/kernels/tune"
)

var (
	key    = Key{Device: "Apple M9", System: "macOS 30", Version: "1.2", Model: "shapes"}
	record = Record{Key: key, BoundMS: 125, At: time.Unix(1e9, 0).UTC(),
		Values: []tune.Value{{Choice: "attention/decode simdgroups",
			Shape: gpu.Shape{2, 256, 1}, Value: 8}}}
)

func TestRoundTrip(t *testing.T) {
	o := Options{Dir: t.TempDir(), Version: "1.2"}
	if got := o.Load(key); !reflect.DeepEqual(got, Record{Key: key}) {
		t.Errorf("no file: %+v", got)
	}
	if err := o.Save(record); err != nil {
		t.Fatal(err)
	}
	got := o.Load(key)
	if !reflect.DeepEqual(got, record) || len(got.Tuned()) != 1 ||
		got.Bound() != 125*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if err := (Options{}).Save(record); err != nil {
		t.Error(err)
	}
}

// TestOthers: the values of another GPU, model, system or version are not used. The bound is that
// of the GPU and the model.
func TestOthers(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	if err := o.Save(record); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Key)
		bound  time.Duration
	}{
		{func(k *Key) { k.Device = "Apple M8" }, gpu.DefaultBound},
		{func(k *Key) { k.Model = "others" }, gpu.DefaultBound},
		{func(k *Key) { k.System = "macOS 31" }, 125 * time.Millisecond},
		{func(k *Key) { k.Version = "1.3" }, 125 * time.Millisecond},
	} {
		k := key
		c.change(&k)
		if got := o.Load(k); len(got.Values) > 0 || got.Bound() != c.bound || got.Key != k {
			t.Errorf("%+v: got %+v", k, got)
		}
	}
}

// TestDamage: damaged files and those of another GPU are ignored with a sentence.
func TestDamage(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	o := Options{Dir: t.TempDir()}
	if err := o.Save(record); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(o.path(key))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "[]", string(good[:len(good)/2]),
		strings.Replace(string(good), "Apple M9", "Apple M1", 1),
		strings.Replace(string(good), `"Value": 8`, `"Value": 7`, 1),
		strings.Replace(string(good), "decode simdgroups", "decode width", 1),
		strings.Replace(string(good), "125", "1e9", 1),
		strings.Replace(string(good), "125", "-1", 1),
		strings.Repeat(" ", maxBytes) + string(good),
	} {
		log.Reset()
		if err := os.WriteFile(o.path(key), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := o.Load(key)
		if !reflect.DeepEqual(got, Record{Key: key}) ||
			!strings.Contains(log.String(), "selftest --tune") {
			t.Errorf("%.60q: %+v, log %q", text, got, log.String())
		}
	}
}

func TestHalved(t *testing.T) {
	r := Record{Key: key}
	for range 10 {
		if next := r.Halved(); next.Bound() >= r.Bound() && r.Bound() != leastBound {
			t.Errorf("%s after %s", next.Bound(), r.Bound())
		} else {
			r = next
		}
	}
	o := Options{Dir: t.TempDir()}
	if err := o.Save(r); err != nil || o.Load(key).Bound() != leastBound {
		t.Errorf("%v, %s", err, o.Load(key).Bound())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"Device":"Apple M9","Model":"shapes","BoundMS":125}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Options{Dir: t.TempDir()}
		if err := os.WriteFile(o.path(key), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := o.Load(key)
		if r.Device != key.Device || r.Bound() < leastBound || r.Bound() > gpu.DefaultBound ||
			len(r.Values) > 0 && len(r.Tuned()) == 0 {
			t.Errorf("%+v", r)
		}
	})
}
