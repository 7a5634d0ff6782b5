package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/app/cache"
	"headroom/app/control"
	"headroom/app/jobs"
	"headroom/app/service"
	"headroom/app/settings"
	"headroom/engine"
	"headroom/engine/problem"
)

// TestMoveCacheOfAServer moves the cache over HTTP, with the model in a worker process. Prompts hit
// the cache in the new folder, before and after a restart. A folder from the command line cannot be
// moved.
func TestMoveCacheOfAServer(t *testing.T) {
	isolate(t)
	file := service.OpenSettings()
	to := filepath.Join(t.TempDir(), "disk")
	if err := os.MkdirAll(filepath.Join(to, "others"), 0o755); err != nil {
		t.Fatal(err)
	}
	begin := func(f CacheFlags) (*service.Service, func()) {
		t.Helper()
		flags := ModelFlags{Device: "cpu", Threads: 1, Context: 4096, CacheFlags: f}
		o := flags.ServiceOptions(ServiceUse{})
		o.Listen, o.Settings = "127.0.0.1", file
		s, err := service.New(o)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context()) }()
		if err := errors.Join(s.Host.Start(""), s.Host.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		return s, func() { s.Close(); <-served }
	}
	send := func(s *service.Service, path string, body any, answer any) int {
		t.Helper()
		text, _ := json.Marshal(body)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Address+path,
			bytes.NewReader(text))
		r.Header.Set(control.TokenHeader, s.Token)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		if text, err = io.ReadAll(got.Body); err == nil {
			err = json.Unmarshal(text, answer)
		}
		if err != nil {
			t.Fatalf("%s: %d %s, %v", path, got.StatusCode, text, err)
		}
		return got.StatusCode
	}
	cached := func(s *service.Service) int {
		t.Helper()
		var answer struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		send(s, "/v1/completions", map[string]any{"prompt": longQuestion, "max_tokens": 2}, &answer)
		return answer.Usage.Details.Cached
	}

	s, end := begin(CacheFlags{BlockSSDCacheMinFree: settings.Unlimited})
	if n := cached(s); n != 0 {
		t.Fatalf("%d tokens are cached before the first request", n)
	}
	old := s.Host.State().Cache.Dir
	var move control.CacheMove
	if status := send(s, "/control/cache/move", control.MoveRequest{Dir: to},
		&move); status != http.StatusAccepted || move.Dir != filepath.Join(to, "headroom-blocks") {
		t.Fatalf("%d, %+v", status, move)
	}
	if job, err := s.Jobs().Wait(t.Context(), move.Job); err != nil || job.State != jobs.Done {
		t.Fatalf("%+v, %v", job, err)
	}
	if err := s.Host.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := cached(s); n < 256 {
		t.Errorf("%d cached tokens after the move", n)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old folder is still there: %v", err)
	}
	if got := file.Get().Cache.Dir; got != move.Dir {
		t.Errorf("the settings name %q", got)
	}
	var refused control.ErrorBody
	if status := send(s, "/control/cache/move", control.MoveRequest{Dir: move.Dir},
		&refused); status != http.StatusBadRequest || refused.Error.Fix == "" {
		t.Errorf("to the same folder: %d, %+v", status, refused)
	}
	end()

	s, end = begin(CacheFlags{})
	if n := cached(s); n < 256 {
		t.Errorf("%d cached tokens after a restart", n)
	}
	end()

	s, end = begin(CacheFlags{BlockSSDCacheDir: move.Dir})
	defer end()
	if status := send(s, "/control/cache/move", control.MoveRequest{Dir: t.TempDir()},
		&refused); status != http.StatusBadRequest || refused.Error.Code != problem.BadRequest {
		t.Errorf("with a folder from the command line: %d, %+v", status, refused)
	}
}

// TestCacheMoveCommand: without a server the command moves the cache itself; with one the server
// does.
func TestCacheMoveCommand(t *testing.T) {
	home := isolate(t)
	first, second := filepath.Join(home, "first"), filepath.Join(home, "second")
	if err := service.OpenSettings().Change(
		func(s *settings.Settings) { s.Cache.MinFree = settings.Unlimited }); err != nil {
		t.Fatal(err)
	}
	refused := func(why string, args ...string) {
		t.Helper()
		if code, out, errOut := headroom("",
			append([]string{"cache", "move"}, args...)...); code == 0 ||
			!strings.Contains(errOut, why) {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errOut)
		}
	}
	refused("Nothing is cached in", first)
	remember(t, cache.DefaultDir())
	refused("Leave it out", "--block-ssd-cache-dir", first, second)
	refused("inside it", filepath.Join(cache.DefaultDir(), "inside"))
	before := listed(t)
	if code, out, errOut := headroom("", "cache", "move", first); code != 0 ||
		out != "The cache is in "+first+".\n" {
		t.Fatalf("exit %d, %s%s", code, out, errOut)
	}
	if after := listed(t); len(before) != 1 || !slices.Equal(after, before) {
		t.Errorf("listed %+v, before %+v", after, before)
	}

	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	_, ended := served(ctx, &Serve{Host: "127.0.0.1"})
	refused("inside it", filepath.Join(first, "inside"))
	if code, out, errOut := headroom("", "cache", "move", second); code != 0 ||
		out != "The cache is in "+second+".\n" {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	after := listed(t, "--block-ssd-cache-dir", second)
	if len(after) != 1 || after[0].Key != before[0].Key {
		t.Errorf("listed %+v, before %+v", after, before)
	}
	for _, dir := range []string{cache.DefaultDir(), first} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// TestMoveOverARestart: the next program lists and resumes a move that was interrupted when the
// program ended. It does not list a move whose settings have already changed.
func TestMoveOverARestart(t *testing.T) {
	isolate(t)
	remember(t, cache.DefaultDir())
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	now := cache.DefaultDir()
	waiting := make(chan struct{})
	mover := &cache.Mover{
		Current: func() (string, engine.BlockStoreLimits) {
			return now,
				engine.BlockStoreLimits{MinFreeBytes: -1}
		},
		Save: func(dir string) error { now = dir; return nil },
		WithClosed: func(ctx context.Context, _ func() (string, error)) error {
			close(waiting)
			<-ctx.Done()
			return ctx.Err()
		},
	}
	transfers := &control.Transfers{Mover: func() (*cache.Mover, error) { return mover, nil }}

	first := jobs.NewList()
	end := service.KeepJobs(dir, first, transfers)
	first.Start(mover.Job(to))
	<-waiting
	first.Close()
	end()
	kept, err := os.ReadFile(filepath.Join(dir, "jobs.json"))
	if err != nil {
		t.Fatal(err)
	}

	mover.WithClosed = func(_ context.Context, do func() (string, error)) error {
		dir, err := do()
		return errors.Join(err, cache.FinishMove(dir))
	}
	second := jobs.NewList()
	end = service.KeepJobs(dir, second, transfers)
	listed := second.Jobs()
	if len(listed) != 1 || listed[0].State != jobs.Stopped || listed[0].Kind != jobs.Cache ||
		listed[0].Title != to {
		t.Fatalf("after the restart: %+v", listed)
	}
	if err := second.Resume(listed[0].ID); err != nil {
		t.Fatal(err)
	}
	if job, err := second.Wait(t.Context(), listed[0].ID); err != nil || job.State != jobs.Done ||
		now != to {
		t.Errorf("resumed: %+v, %v, the settings name %s", job, err, now)
	}
	second.Close()
	end()

	if err := os.WriteFile(filepath.Join(dir, "jobs.json"), kept, 0o600); err != nil {
		// as if the program had crashed after the change
		t.Fatal(err)
	}
	third := jobs.NewList()
	defer third.Close()
	service.KeepJobs(dir, third, transfers)()
	if left := third.Jobs(); len(left) != 0 {
		t.Errorf("a completed move is listed again: %+v", left)
	}
}
