package update

// Fetching the feed and an archive. A request has no cookie, no version and nothing else about this
// computer: its User-Agent is "Headroom".

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

const (
	feedTime     = 30 * time.Second
	maxRedirects = 5
	// spareBytes of the disk stay free beside an update.
	spareBytes = 256 << 20
)

// newClient returns a client that follows redirects only to secure addresses.
func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		if !secure(r.URL) {
			return fmt.Errorf("it redirects to %s, which is not https", r.URL.Redacted())
		}
		return nil
	}}
}

// get sends a request. The caller closes the body.
func get(ctx context.Context, c *http.Client, address string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "Headroom")
	a, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		a.Body.Close()
		return nil, fmt.Errorf("%s answered %s", r.URL.Redacted(), a.Status)
	}
	return a.Body, nil
}

// small returns the body at an address, which may have up to limit bytes.
func small(ctx context.Context, c *http.Client, address string, limit int64) ([]byte, error) {
	body, err := get(ctx, c, address)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", address, limit)
	}
	return data, err
}

// fetchFeed returns the verified feed and the file for a system. The error is a Problem.
func fetchFeed(ctx context.Context, c *http.Client, address, keyText, goos, goarch string) (
	feed Feed, f File, err error) {
	if err := CheckAddress(address); err != nil {
		return Feed{}, File{}, problem.New(problem.BadRequest,
			"The address of the update feed is not valid", err.Error(),
			"Correct it in Settings, Updates.")
	}
	key, err := ParseKey(keyText)
	if err != nil {
		return Feed{}, File{}, problem.New(problem.BadRequest,
			"The key of the update feed is not valid", err.Error(),
			"Enter the publisher's key of minisign in Settings, Updates.")
	}
	ctx, cancel := context.WithTimeout(ctx, feedTime)
	defer cancel()
	data, err := small(ctx, c, address, maxFeedBytes)
	var signature []byte
	if err == nil {
		signature, err = small(ctx, c, address+".minisig", maxFeedBytes)
	}
	if err != nil {
		return Feed{}, File{}, problem.Wrap(problem.Upstream, err,
			"The update feed could not be read",
			"Check your internet connection and the address in Settings, Updates.")
	}
	if err := key.Verify(data, signature); err != nil {
		return Feed{}, File{}, problem.New(problem.Forbidden,
			"The signature of the update feed is not valid", err.Error(),
			"Nothing was downloaded. Check the address and the key in Settings, Updates.")
	}
	if feed, f, err = parseFeed(data, goos, goarch); err != nil {
		return Feed{}, File{}, problem.New(problem.NotFound, "The update feed has no update for "+
			"this computer", err.Error(), "Ask its publisher.")
	}
	base, _ := url.Parse(address) // checked
	at, err := base.Parse(f.URL)
	if err != nil || !secure(at) {
		return Feed{}, File{}, problem.New(problem.Forbidden, "The update cannot be downloaded",
			"its address is "+f.URL+", which is not https", "Ask the publisher of the feed.")
	}
	f.URL = at.String()
	return feed, f, nil
}

// download writes the archive to path and verifies its length and hash. If path has its beginning,
// that is replaced. progress is called with the number of bytes so far. The error is a Problem.
func download(ctx context.Context, c *http.Client, f File, path string,
	progress func(int64)) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return notWritten(err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = notWritten(closed)
		}
	}()
	body, err := get(ctx, c, f.URL)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer body.Close()
	hash, written := sha256.New(), int64(0)
	buffer := make([]byte, 128<<10)
	for {
		n, err := body.Read(buffer)
		if written += int64(n); written > f.Bytes {
			return damaged(fmt.Sprintf("it is longer than the %d bytes of the feed", f.Bytes))
		}
		hash.Write(buffer[:n])
		if _, err := file.Write(buffer[:n]); err != nil {
			return notWritten(err)
		}
		progress(written)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return interrupted(ctx, err)
		}
	}
	if written != f.Bytes {
		return damaged(fmt.Sprintf("it ended after %d of %d bytes", written, f.Bytes))
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, f.SHA256) {
		return damaged("its SHA-256 is " + got + ", the feed has " + f.SHA256)
	}
	if err := file.Sync(); err != nil {
		return notWritten(err)
	}
	return nil
}

// hasSpace returns a Problem unless the disk has room for the archive and what is in it.
func hasSpace(dir string, f File) error {
	const unpacked = 4 // times the archive, at most, for programs
	need := f.Bytes*(1+unpacked) + spareBytes
	if free, err := disk.FreeBytes(dir); err == nil && free < need {
		return problem.New(problem.DiskFull, "The disk is too full for the update",
			fmt.Sprintf("it needs %d MB, %d MB are free", need/1e6, free/1e6),
			"Free some space, then download it again.")
	}
	return nil
}

func damaged(why string) error {
	return problem.New(problem.Upstream, "The update was not downloaded whole", why,
		"Nothing was changed. Download it again; if that repeats, tell the feed's publisher.")
}

func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return problem.Wrap(problem.Upstream, err, "The update could not be downloaded",
		"Nothing was changed. Check your internet connection, then download it again.")
}

func notWritten(err error) error {
	if disk.IsFull(err) {
		return problem.Wrap(problem.DiskFull, err, "The disk is too full for the update",
			"Nothing was changed. Free some space, then download it again.")
	}
	return problem.Wrap(problem.Internal, err, "The update could not be saved",
		"Nothing was changed. Check the permissions of the folder that Headroom is in.")
}
