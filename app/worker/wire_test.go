package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/engine"
	"headroom/engine/sample"
)

// nopCloser is the sending end of a pipe in memory.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// framed returns messages as they are written to a pipe.
func framed(messages ...any) []byte {
	var pipe bytes.Buffer
	o := newOutbox(nopCloser{&pipe})
	for _, m := range messages {
		o.send(m)
	}
	o.close()
	<-o.done
	return pipe.Bytes()
}

// roundTrip sends a message and returns what arrives.
func roundTrip[T any](t *testing.T, message *T) *T {
	t.Helper()
	in, got := newInbox(bytes.NewReader(framed(message))), new(T)
	if err := in.receive(got); err != nil {
		t.Fatal(err)
	}
	if err := in.receive(new(T)); !errors.Is(err, io.EOF) {
		t.Errorf("after the message: %v, want io.EOF", err)
	}
	return got
}

// replaced lists the fields that are not sent, and what is sent instead.
var replaced = map[string]string{
	"Options.OpenMetal":  "refused by Open",
	"Options.Times":      "refused by Open",
	"Options.Draft":      "refused by Open",
	"Options.DraftModel": "opening.DraftModel",
	"DraftModel.Source":  "draftModel.Dir",
	"Options.Progress":   "fromWorker.Progress",
	"Options.History":    "toWorker.Known, fromWorker.Learned",
	"Options.BlockStore": "opening.Store",
	"Params.Custom":      "refused by Submit",
	"options.OpenMetal":  "hides Options.OpenMetal",
	"options.Times":      "hides Options.Times",
	"options.Draft":      "hides Options.Draft",
	"options.DraftModel": "hides Options.DraftModel",
	"draftModel.Source":  "hides DraftModel.Source",
	"options.Progress":   "hides Options.Progress",
	"options.History":    "hides Options.History",
	"options.BlockStore": "hides Options.BlockStore",
	"Event.Err":          "wireEvent.Err",
}

// fill sets every field to a different value. It fails the test at a field that cannot be sent: a
// function, or an unexported field.
func fill(t *testing.T, v reflect.Value, path string, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*next) + 0.5)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *next))
	case reflect.Pointer:
		const deepest = 10 // a type may have a pointer to its own
		if strings.Count(path, ".") > deepest {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), path, next)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path, next)
		fill(t, value, path, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface: // attr.Value
		if v.NumMethod() > 0 {
			t.Errorf("%s is an interface, which cannot be sent", path)
			return
		}
		v.Set(reflect.ValueOf(fmt.Sprint("any ", *next)))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(*next, *next).UTC()))
			return
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := v.Type().Name() + "." + field.Name
			switch {
			case replaced[name] != "":
			case !field.IsExported() && !field.Anonymous:
				t.Errorf("%s in %s is not exported and would be lost: export it, or send it in "+
					"another form and add it to replaced", name, path)
			default:
				fill(t, v.Field(i), path+"."+field.Name, next)
			}
		}
	default:
		t.Errorf("%s is a %s, which cannot be sent: send it in another form and add it to replaced",
			path, v.Type())
	}
}

// TestEveryFieldArrives: every field of every message arrives, including those of the engine's
// types. A new field that cannot be sent fails here.
func TestEveryFieldArrives(t *testing.T) {
	var next int64
	var to toWorker
	fill(t, reflect.ValueOf(&to).Elem(), "toWorker", &next)
	if got := roundTrip(t, &to); !reflect.DeepEqual(got, &to) {
		t.Errorf("arrived\n%+v\nwant\n%+v", got, &to)
	}
	var from fromWorker
	fill(t, reflect.ValueOf(&from).Elem(), "fromWorker", &next)
	if got := roundTrip(t, &from); !reflect.DeepEqual(got, &from) {
		t.Errorf("arrived\n%+v\nwant\n%+v", got, &from)
	}
	for name := range replaced {
		of, field, _ := strings.Cut(name, ".")
		types := map[string]reflect.Type{"Options": reflect.TypeFor[engine.Options](),
			"options": reflect.TypeFor[options](), "Event": reflect.TypeFor[engine.Event](),
			"DraftModel": reflect.TypeFor[engine.DraftModel](),
			"Params":     reflect.TypeFor[sample.Params](),
			"draftModel": reflect.TypeFor[draftModel]()}
		if _, ok := types[of].FieldByName(field); !ok {
			t.Errorf("replaced names %s, which does not exist", name)
		}
	}
}

// TestFill: fill fails the test at each kind of field that cannot be sent.
func TestFill(t *testing.T) {
	type unexported struct{ field int }
	type function struct{ F func() }
	type anInterface struct{ E error }
	for _, v := range []any{&unexported{}, &function{}, &anInterface{}} {
		var inner testing.T
		var next int64
		fill(&inner, reflect.ValueOf(v).Elem(), "x", &next)
		if !inner.Failed() {
			t.Errorf("%T passes", v)
		}
	}
	_ = unexported{}.field
}

// TestOddValuesArrive: NaN payloads, infinities and invalid UTF-8 arrive unchanged.
func TestOddValuesArrive(t *testing.T) {
	odd := float32(math.Float32frombits(0x7fc00123)) // a NaN with a payload
	e := engine.Event{Type: engine.Token, Text: "half a character: \xe2\x82",
		Logprob: float32(math.Inf(-1)),
		Top: []sample.TokenLogprob{{Token: 1, Logprob: odd},
			{Token: 2, Logprob: math.SmallestNonzeroFloat32}}}
	got := roundTrip(t, &fromWorker{Event: &event{1, newWireEvent(e)}}).Event.Event.event()
	if got.Text != e.Text || got.Logprob != e.Logprob ||
		math.Float32bits(got.Top[0].Logprob) != math.Float32bits(odd) || got.Top[1] != e.Top[1] {
		t.Errorf("arrived %+v, want %+v", got, e)
	}
	for _, list := range [][]int32{nil, {}, {math.MinInt32, math.MaxInt32}} {
		sent := &toWorker{Submit: &submission{Request: engine.Request{Prompt: list}}}
		got := roundTrip(t, sent).Submit.Request.Prompt
		if !reflect.DeepEqual(got, list) {
			t.Errorf("arrived %#v, want %#v", got, list)
		}
	}
}

// TestLengthsAreNotTrusted: memory is allocated for the bytes that arrive, not for the length that
// the frame claims.
func TestLengthsAreNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		bytes     string
		malformed bool
	}{
		"more than maxFrameBytes": {"\xff\xff\xff\xffabc", true},
		"more than arrives":       {"\x00\x00\x00\x04abc", false},
		"a list's length":         {"\x06\x00\x00\x00\xa1\x08\x9a\x04\x00\x00", true},
		"no document":             {"\x00\x00\x00\x00", true},
		"an incomplete length":    {"\x01", false},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var message fromWorker
		err := newInbox(strings.NewReader(c.bytes)).receive(&message)
		runtime.ReadMemStats(&after)
		if err == nil || errors.Is(err, errMalformed) != c.malformed {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: allocated %d bytes", name, took)
		}
	}
}

// seeds adds messages to the seed corpus, each after a hello.
func seeds(f *testing.F, messages ...any) {
	for _, m := range messages {
		f.Add(framed(helloBefore(m), m))
	}
}

// helloBefore returns the hello that comes before a message in the same direction.
func helloBefore(message any) any {
	if _, ok := message.(*toWorker); ok {
		return &toWorker{Hello: newHello()}
	}
	return &fromWorker{Hello: newHello()}
}

// FuzzParent: whatever a worker sends, the parent's side returns, and each of its requests and
// calls ends once.
func FuzzParent(f *testing.F) {
	one := callNumber(2)
	seeds(f, &fromWorker{Opened: &opened{}}, &fromWorker{Accepted: &accepted{Stream: 1}},
		&fromWorker{Event: &event{1, newWireEvent(engine.Event{Type: engine.Done})}},
		&fromWorker{Event: &event{1, newWireEvent(engine.Event{Type: engine.Token, Text: "x"})}},
		&fromWorker{Finished: &engine.Finished{}}, &fromWorker{Stats: &engine.Stats{}},
		&fromWorker{Prefixes: &prefixes{Call: one}},
		&fromWorker{Held: &held{Call: one, OK: true}},
		&fromWorker{Log: &record{Attrs: []attr{{"a", 1}}}}, &fromWorker{Closed: &closed{}},
		&fromWorker{Heartbeat: &engine.Heartbeat{}}, &fromWorker{Forgotten: &forgotten{Call: one}},
		&fromWorker{Learned: nil})
	f.Fuzz(func(t *testing.T, noise []byte) {
		m := newModel(&process{log: quiet, stderr: &stderrTail{},
			replies: io.NopCloser(bytes.NewReader(noise)), command: &exec.Cmd{}}, engine.Options{})
		s := &stream{accepted: make(chan error, 1)}
		out, put := engine.NewStream("a", func(engine.FinishReason) {})
		s.put = put
		m.streams[1] = s
		answer := make(chan *fromWorker, 1)
		m.calls[one] = answer
		_ = m.process.receive(m.handle)
		m.endAll()
		read(t, out)
		<-s.accepted
		<-answer
	})
}

// FuzzWorker: whatever a parent sends before a model is loaded, the worker's side returns.
func FuzzWorker(f *testing.F) {
	one, two := streamNumber(1), callNumber(2)
	seeds(f, &toWorker{Open: &opening{}}, &toWorker{Gate: &gateRequest{}},
		&toWorker{Submit: &submission{}}, &toWorker{Cancel: &one}, &toWorker{Stop: &one},
		&toWorker{Prefixes: &two},
		&toWorker{Held: newHeldRequest(two, engine.NewHeldQuestion(make([]int32, 300), 128,
			[]int{7, 299}), time.Second)},
		&toWorker{Heartbeat: &heartbeatRequest{}}, &toWorker{Forget: &forgetRequest{Call: two}},
		&toWorker{Limits: &engine.BlockStoreLimits{}}, &toWorker{Close: &closeRequest{}})
	f.Fuzz(func(t *testing.T, noise []byte) {
		s := newSession(newOutbox(nopCloser{io.Discard}))
		s.begun = true // so that no model is opened
		s.listen(bytes.NewReader(noise))
		s.end()
		s.outbox.close()
		<-s.outbox.done
	})
}

// TestHeldRequest: a question arrives as it was sent.
func TestHeldRequest(t *testing.T) {
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	for _, positions := range [][]int{nil, {7, 299}} {
		q := engine.NewHeldQuestion(tokens, 128, positions)
		if got := newHeldRequest(1, q, 0).question(); !reflect.DeepEqual(got, q) {
			t.Errorf("%+v, want %+v", got, q)
		}
	}
}
