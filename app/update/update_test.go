package update

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/engine/problem"
)

// world is a publisher with a feed, and a computer with an installation.
type world struct {
	t       *testing.T
	server  *httptest.Server
	public  string // the publisher's key, as minisign prints it
	private ed25519.PrivateKey

	mu       sync.Mutex
	files    map[string][]byte // what the publisher serves, by path
	requests []*http.Request

	home, install, record string
	feed                  string // the address in the settings
	options               Options
}

var keyID = []byte("12345678")

func newWorld(t *testing.T) *world {
	w := &world{t: t, files: map[string][]byte{}, home: t.TempDir()}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.private = private
	w.public = base64.StdEncoding.EncodeToString(append(append([]byte("Ed"), keyID...), public...))
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		data, ok := w.files[r.URL.Path]
		w.requests = append(w.requests, r)
		w.mu.Unlock()
		if !ok {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(data)
	}))
	t.Cleanup(w.server.Close)
	w.feed = w.server.URL + "/feed.json"
	w.install = filepath.Join(w.home, "lib", "headroom")
	w.record = filepath.Join(w.home, "settings", "update.json")
	for name, text := range program("0.1.0") {
		path := filepath.Join(w.install, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// program returns the files of a version.
func program(version string) map[string]string {
	return map[string]string{"headroom": "#!/bin/sh\necho headroom v" + version + "\n",
		"share/notes": version}
}

// pack returns an archive with these files in the folder "headroom-new/lib".
func pack(t *testing.T, files map[string]string) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archived := tar.NewWriter(zipped)
	for name, text := range files {
		if err := archived.WriteHeader(&tar.Header{Name: "headroom-new/lib/" + name, Mode: 0o755,
			Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = archived.Write([]byte(text))
	}
	if err := errors.Join(archived.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sign returns a signature file of minisign.
func (w *world) sign(message []byte) []byte {
	const comment = "timestamp:1 file:feed.json"
	sign := ed25519.Sign(w.private, message)
	second := ed25519.Sign(w.private, append(bytes.Clone(sign), comment...))
	first := append(append([]byte("Ed"), keyID...), sign...)
	return fmt.Appendf(nil, "untrusted comment: signature\n%s\ntrusted comment: %s\n%s\n",
		base64.StdEncoding.EncodeToString(first), comment,
		base64.StdEncoding.EncodeToString(second))
}

// publish serves a feed with this version. change may damage what is served.
func (w *world) publish(version string, change func(files map[string][]byte, feed *Feed)) {
	archive := pack(w.t, program(version))
	sum := sha256.Sum256(archive)
	feed := Feed{Version: version, Notes: "What is new.", Files: []File{
		{OS: "plan9", Arch: "386", URL: "none", Bytes: 1},
		{OS: runtime.GOOS, Arch: runtime.GOARCH, URL: "files/new.tar.gz",
			Bytes: int64(len(archive)), SHA256: hex.EncodeToString(sum[:]),
			Folder: "headroom-new/lib"}}}
	files := map[string][]byte{"/files/new.tar.gz": archive}
	if change != nil {
		change(files, &feed)
	}
	if files["/feed.json"] == nil {
		files["/feed.json"], _ = json.Marshal(feed)
	}
	if files["/feed.json.minisig"] == nil {
		files["/feed.json.minisig"] = w.sign(files["/feed.json"])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = files
}

// start returns the Updater of a program of the installed version.
func (w *world) start() *Updater {
	o := w.options
	o.Feed = func() (string, string) { return w.feed, w.public }
	o.Version, o.File, o.Install, o.Program = w.installed(), w.record, w.install, "headroom"
	o.Log = slog.New(slog.DiscardHandler)
	u := New(o)
	w.t.Cleanup(u.Close)
	return u
}

// installed returns the version in the installed folder, which must be whole.
func (w *world) installed() string {
	w.t.Helper()
	notes, err := os.ReadFile(filepath.Join(w.install, "share", "notes"))
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(w.install, "headroom"))
	if err != nil || string(text) != program(string(notes))["headroom"] {
		w.t.Fatalf("the installed program is %q of version %s: %v", text, notes, err)
	}
	return string(notes)
}

// download checks, downloads, and returns the status when that has ended.
func (w *world) download(u *Updater) Status {
	w.t.Helper()
	if err := u.Check(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := u.Download(); err != nil {
		w.t.Fatal(err)
	}
	u.working.Wait()
	return u.Status()
}

// TestUpdate: a newer version is found, downloaded, applied at quit, and taken back.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	u := w.start()
	if s := u.Status(); s.Phase != Idle || s.CheckedAtUnixMs != 0 {
		t.Errorf("at first: %+v", s)
	}
	w.publish("0.1.0", nil)
	if err := u.Check(t.Context()); err != nil || u.Status().Phase != Idle {
		t.Errorf("the same version: %v, %+v", err, u.Status())
	}
	w.publish("0.2.0", nil)
	s := w.download(u)
	if s.Phase != Ready || s.Version != "0.2.0" || s.Err != nil || w.installed() != "0.1.0" {
		t.Errorf("downloaded: %+v", s)
	}
	u = w.start() // it stays ready over a restart
	if s := u.Status(); s.Phase != Ready || s.Version != "0.2.0" {
		t.Errorf("started again: %+v", s)
	}
	w.options.Alone = func() bool { return false }
	if to, err := w.start().Apply(); to != "" || err != nil || w.installed() != "0.1.0" {
		t.Errorf("while another one runs: %q, %v", to, err)
	}
	w.options.Alone = nil
	if to, err := u.Apply(); to != "0.2.0" || err != nil || w.installed() != "0.2.0" {
		t.Fatalf("applied: %q, %v", to, err)
	}
	u = w.start()
	if s := u.Status(); s.Phase != Idle || s.Current != "0.2.0" || s.Previous != "0.1.0" {
		t.Errorf("after the update: %+v", s)
	}
	if err := u.Back(); err != nil || !u.Status().GoesBack {
		t.Errorf("going back: %v, %+v", err, u.Status())
	}
	if to, err := u.Apply(); to != "0.1.0" || err != nil || w.installed() != "0.1.0" {
		t.Fatalf("gone back: %q, %v", to, err)
	}
	if s := w.start().Status(); s.Phase != Idle || s.Previous != "" {
		t.Errorf("after going back: %+v", s)
	}
	if entries, _ := os.ReadDir(filepath.Dir(w.install)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	for _, r := range w.requests {
		if agent := r.Header.Get("User-Agent"); agent != "Headroom" || r.URL.RawQuery != "" ||
			len(r.Header) > 2 || r.Method != "GET" {
			t.Errorf("a request sends %s %s, %v", r.Method, r.URL, r.Header)
		}
	}
}

// TestRefused: whatever is wrong with a feed or an archive, nothing changes, and a sentence says
// what is wrong.
func TestRefused(t *testing.T) {
	set := func(name string, data []byte) func(map[string][]byte, *Feed) {
		return func(files map[string][]byte, _ *Feed) { files[name] = data }
	}
	file := func(change func(*File)) func(map[string][]byte, *Feed) {
		return func(_ map[string][]byte, feed *Feed) { change(&feed.Files[1]) }
	}
	other := newWorld(t)
	var ofAnother []byte // a signature of another feed
	for _, c := range []struct {
		name, version string
		change        func(files map[string][]byte, feed *Feed)
		want          string // in the Problem
	}{
		{"no feed", "0.2.0", set("/feed.json", nil), ""},
		{"another key", "0.2.0", func(files map[string][]byte, feed *Feed) {
			files["/feed.json"], _ = json.Marshal(feed)
			files["/feed.json.minisig"] = other.sign(files["/feed.json"])
		}, "changed after it was signed"},
		{"a changed feed", "0.2.0", func(files map[string][]byte, _ *Feed) {
			files["/feed.json.minisig"] = ofAnother
		}, "changed after it was signed"},
		{"a signature that is none", "0.2.0", set("/feed.json.minisig", []byte("a\nb\nc\nd\n")),
			"no signature of minisign"},
		{"an empty signature", "0.2.0", set("/feed.json.minisig", []byte{}), "1 lines"},
		{"an older version", "0.0.9", nil, "older version"},
		{"no version", "soon", nil, "expected one such as 0.2.0"},
		{"no JSON", "0.2.0", set("/feed.json", []byte("<html>")), "not a feed"},
		{"another system", "0.2.0", file(func(f *File) { f.OS = "plan9" }), "no file for"},
		{"no https", "0.2.0", file(func(f *File) { f.URL = "http://example.org/a" }), "not https"},
		{"a folder outside", "0.2.0", file(func(f *File) { f.Folder = "../x" }),
			"within the archive"},
		{"a short download", "0.2.0", func(files map[string][]byte, _ *Feed) {
			files["/files/new.tar.gz"] = files["/files/new.tar.gz"][:100]
		}, "ended after 100 of"},
		{"a long download", "0.2.0", func(files map[string][]byte, _ *Feed) {
			files["/files/new.tar.gz"] = append(files["/files/new.tar.gz"], 'x')
		}, "longer than"},
		{"another archive", "0.2.0", file(func(f *File) { f.SHA256 = strings.Repeat("0", 64) }),
			"SHA-256"},
		{"an archive that is gone", "0.2.0", set("/files/new.tar.gz", nil), "404"},
		{"another version inside", "0.2.0", func(files map[string][]byte, feed *Feed) {
			feed.Version = "0.3.0"
		}, "0.3.0"},
		{"no program inside", "0.2.0", file(func(f *File) { f.Folder = "headroom-new" }),
			"does not start"},
	} {
		w := newWorld(t)
		ofAnother = w.sign([]byte("another feed"))
		w.publish(c.version, c.change)
		if c.name == "no feed" || c.name == "an archive that is gone" {
			w.mu.Lock()
			for name, data := range w.files {
				if len(data) == 0 || c.name == "no feed" {
					delete(w.files, name)
				}
			}
			w.mu.Unlock()
		}
		u := w.start()
		err := u.Check(t.Context())
		if err == nil {
			if err = u.Download(); err == nil {
				u.working.Wait()
				err = u.Status().Err
			}
		}
		p := problem.From(err)
		if err == nil || p.Message == "" || p.Why == "" || p.Fix == "" ||
			!strings.Contains(p.Message+" "+p.Why, c.want) {
			t.Errorf("%s: got %#v, want it to say %q", c.name, p, c.want)
		}
		if to, err := u.Apply(); to != "" || err != nil || w.installed() != "0.1.0" {
			t.Errorf("%s: applied %q, %v", c.name, to, err)
		}
		if _, err := os.Stat(u.place.next()); err == nil {
			t.Errorf("%s: what was unpacked is left behind", c.name)
		}
	}
}

// TestReplayedFeed: a feed that was signed once is refused after a newer one was seen.
func TestReplayedFeed(t *testing.T) {
	w := newWorld(t)
	w.publish("0.3.0", nil)
	if err := w.start().Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.publish("0.2.0", nil)
	u := w.start()
	if err := u.Check(t.Context()); err == nil ||
		!strings.Contains(problem.From(err).Why, "offered 0.3.0 before") {
		t.Errorf("got %v", err)
	}
	if u.Status().Phase != Idle {
		t.Errorf("the status is %+v", u.Status())
	}
}

// TestKilled: wherever a process is killed while it applies an update or goes back, a whole version
// is installed, and the next run completes it or tries again.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		step string
		back bool
	}{{"noted", false}, {"exchanged", false}, {"kept", false}, {"saved", false}, {"noted", true},
		{"exchanged", true}, {"saved", true}} {
		w := newWorld(t)
		w.publish("0.2.0", nil)
		w.download(w.start())
		want := "0.2.0"
		if c.back {
			if _, err := w.start().Apply(); err != nil {
				t.Fatal(err)
			}
			if err := w.start().Back(); err != nil {
				t.Fatal(err)
			}
			want = "0.1.0"
		}
		w.applyKilled(c.step)
		w.installed() // it is whole
		u := w.start()
		if w.installed() != want { // the next quit tries again
			if to, err := u.Apply(); to != want || err != nil {
				t.Errorf("%+v: applied %q, %v", c, to, err)
			}
			u = w.start()
		}
		s := u.Status()
		if w.installed() != want || s.Phase != Idle || s.GoesBack ||
			(s.Previous == "0.1.0") == c.back {
			t.Errorf("%+v: %s is installed, %+v", c, w.installed(), s)
		}
		if c.back {
			continue
		}
		if err := u.Back(); err != nil {
			t.Fatal(err)
		}
		if to, err := u.Apply(); to != "0.1.0" || err != nil || w.installed() != "0.1.0" {
			t.Errorf("%+v: gone back to %q, %v", c, to, err)
		}
	}
}

// killedAt is the variable with the step at which TestApplyInProcess kills itself.
const killedAt = "HEADROOM_TEST_KILLED_AT"

// applyKilled runs Apply in another process, which kills itself at a step.
func (w *world) applyKilled(step string) {
	w.t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestApplyInProcess$")
	c.Env = append(os.Environ(), killedAt+"="+step, "HEADROOM_TEST_INSTALL="+w.install,
		"HEADROOM_TEST_RECORD="+w.record, "HEADROOM_TEST_VERSION="+w.installed())
	said, err := c.CombinedOutput()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		w.t.Fatalf("%s: the process was not killed: %v\n%s", step, err, said)
	}
}

func TestApplyInProcess(t *testing.T) {
	step := os.Getenv(killedAt)
	if step == "" {
		t.Skip("TestKilled runs it in another process")
	}
	u := New(Options{Feed: func() (string, string) { return "", "" },
		Version: os.Getenv("HEADROOM_TEST_VERSION"), File: os.Getenv("HEADROOM_TEST_RECORD"),
		Install: os.Getenv("HEADROOM_TEST_INSTALL"), Program: "headroom",
		step: func(now string) {
			if now == step {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}})
	to, err := u.Apply()
	t.Fatalf("applied %q, %v", to, err)
}

// TestFailingVersion: a version that is started again and again without running for a while makes
// way for the one before.
func TestFailingVersion(t *testing.T) {
	w := newWorld(t)
	w.publish("0.2.0", nil)
	w.download(w.start())
	if _, err := w.start().Apply(); err != nil {
		t.Fatal(err)
	}
	for n := range maxStarts {
		if w.start().Started() {
			t.Fatalf("it went back at start %d", n+1)
		}
	}
	if !w.start().Started() || w.installed() != "0.1.0" {
		t.Fatalf("%s is installed", w.installed())
	}
	if w.start().Started() {
		t.Error("the version before goes back, too")
	}
	w.download(w.start())
	if _, err := w.start().Apply(); err != nil {
		t.Fatal(err)
	}
	for range 2 * maxStarts {
		u := w.start()
		if u.Started() {
			t.Fatal("a version that runs went back")
		}
		u.Healthy()
	}
}

// TestFullDisk: a disk that is full before or while the archive is written changes nothing.
func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	w.publish("0.2.0", nil)
	full := problem.New(problem.DiskFull, "The disk is too full for the update", "a", "b")
	w.options.free = func() error { return full }
	u := w.start()
	if s := w.download(u); problem.From(s.Err).Code != problem.DiskFull || s.Phase != Available {
		t.Errorf("%+v", s)
	}
	if err := hasSpace(w.home, File{Bytes: 1 << 50}); problem.From(err).Code != problem.DiskFull {
		t.Errorf("a petabyte: %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	_, f, err := fetchFeed(t.Context(), newClient(), w.feed, w.public, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	err = download(t.Context(), newClient(), f, "/dev/full", func(int64) {})
	if p := problem.From(err); p.Code != problem.DiskFull || p.Fix == "" {
		t.Errorf("while it is written: %v", err)
	}
}

// TestCancel: a download that is cancelled leaves nothing.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.publish("0.2.0", nil)
	u := w.start()
	w.download(u)
	if err := u.Cancel(); err != nil || u.Status().Phase == Ready {
		t.Errorf("%v, %+v", err, u.Status())
	}
	if to, err := u.Apply(); to != "" || err != nil || w.installed() != "0.1.0" {
		t.Errorf("applied %q, %v", to, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Check(ctx); err == nil {
		t.Error("a check that was cancelled succeeds")
	}
}

// TestForeignStage: a folder of the name of ours that is not ours is neither used nor removed.
func TestForeignStage(t *testing.T) {
	w := newWorld(t)
	stage := filepath.Join(filepath.Dir(w.install), stageName)
	foreign := []string{filepath.Join(stage, "next", "mine"), filepath.Join(stage, "archive")}
	for _, path := range foreign {
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.publish("0.2.0", nil)
	u := w.start()
	if s := w.download(u); problem.From(s.Err).Code != problem.Exists {
		t.Errorf("%+v", s)
	}
	_ = u.Cancel()
	_, _ = u.Apply()
	_ = u.place.forget()
	for _, path := range foreign {
		if text, err := os.ReadFile(path); string(text) != "mine" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// TestNotInstalled: a program that was built from source says that it cannot update itself.
func TestNotInstalled(t *testing.T) {
	w := newWorld(t)
	w.publish("0.2.0", nil)
	u := New(Options{Feed: func() (string, string) { return w.feed, w.public }, Version: "dev",
		File: w.record, Log: slog.New(slog.DiscardHandler)})
	if err := u.Check(t.Context()); err != nil || u.Status().Phase != Available {
		t.Errorf("%v, %+v", err, u.Status())
	}
	if err := u.Download(); err == nil || problem.From(err).Fix == "" {
		t.Errorf("got %v", err)
	}
}

// TestOff: without a feed nothing is asked, and with one a day passes between two checks.
func TestOff(t *testing.T) {
	w := newWorld(t)
	w.publish("0.2.0", nil)
	now := time.Now()
	w.options.now = func() time.Time { return now }
	address := w.feed
	w.feed = ""
	u := w.start()
	if err := u.Check(t.Context()); err == nil || u.Status().Phase != Off || u.due() {
		t.Errorf("%v, %+v", err, u.Status())
	}
	if len(w.requests) > 0 {
		t.Errorf("%d requests", len(w.requests))
	}
	w.feed = address
	if !u.due() || u.due() {
		t.Error("the first check is not due, or is due twice")
	}
	now = now.Add(23 * time.Hour)
	if u.due() {
		t.Error("it is due after 23 hours")
	}
	now = now.Add(time.Hour)
	if !w.start().due() {
		t.Error("it is not due after a day")
	}
}

// TestUnpack: an archive cannot write outside of its folder.
func TestUnpack(t *testing.T) {
	for name, header := range map[string]tar.Header{
		"a path outside":   {Name: "../evil", Typeflag: tar.TypeReg},
		"an absolute link": {Name: "a", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		"a link outside":   {Name: "a/b", Linkname: "../../c", Typeflag: tar.TypeSymlink},
		"a device":         {Name: "a", Typeflag: tar.TypeChar},
		"a huge file":      {Name: "a", Typeflag: tar.TypeReg, Size: maxUnpackedBytes + 1},
	} {
		dir := t.TempDir()
		var out bytes.Buffer
		zipped := gzip.NewWriter(&out)
		archived := tar.NewWriter(zipped)
		if err := archived.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		_ = archived.Flush()
		_ = zipped.Close()
		archive := filepath.Join(dir, "archive")
		if err := os.WriteFile(archive, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unpack(t.Context(), archive, filepath.Join(dir, "next")); err == nil {
			t.Errorf("%s is unpacked", name)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 2 {
			t.Errorf("%s: %v", name, entries)
		}
	}
}

func TestVersions(t *testing.T) {
	ordered := []string{"unknown", "0.0.9", "v0.1.0-rc.1", "0.1.0", "v0.1.1", "0.2.0", "0.10.0",
		"1.0.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := newer(a, b); got != (i > j) {
				t.Errorf("newer(%s, %s) = %t", a, b, got)
			}
		}
	}
	if newer("v0.1.0-12-gab12cd3", "0.1.0") || newer("0.1.0", "v0.1.0-12-gab12cd3-dirty") ||
		!same("v0.1.0-dirty", "0.1.0") {
		t.Error("a build after a tag is another version")
	}
}

// TestKeys: a signature is valid, no changed one is, and only addresses that nobody between can
// change are feeds.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	key, err := ParseKey("untrusted comment: minisign public key 1\n" + w.public + "\n")
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("a feed")
	good := w.sign(message)
	if err := key.Verify(message, good); err != nil {
		t.Error(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		first, _, _ := bytes.Cut(good, []byte("\n"))
		if i > len(first) && i < len(good)-1 && key.Verify(message, bad) == nil &&
			!bytes.Equal(bytes.TrimSpace(bad), bytes.TrimSpace(good)) {
			t.Errorf("valid with byte %d changed: %q", i, bad)
		}
	}
	for _, text := range []string{"", "RW", strings.Repeat("A", 56), w.public[:40]} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
	for address, ok := range map[string]bool{"https://example.org/feed.json": true,
		"http://example.org/feed.json": false, "http://127.0.0.1:8/f": true, "feed.json": false,
		"file:///etc/passwd": false, "http://localhost/feed": false} {
		if err := CheckAddress(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
