package hub

// The hub's API: searching models, and listing the files of a repository.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/engine/problem"
)

// Found is one result of a search.
type Found struct {
	ID        string
	ModelType string // model_type of its config.json; "": not known
	Tags      []string
	Downloads int64 // in the last month
	Likes     int64
	UpdatedAt time.Time // zero: not known
	Gated     bool      // its terms must be accepted on the hub's page
	Licence   string    // as the hub abbreviates it, such as apache-2.0; "": not known
	SizeBytes int64     // of its weights; 0: not known
}

// Query is a search. Limit is required.
type Query struct {
	Words string // that the names contain
	Owner string // whose repositories are searched; "": everybody's
	Limit int
}

// Repository is a repository at a commit.
type Repository struct {
	ID        string
	Revision  string // as requested
	Commit    string // 40 hexadecimal digits
	ModelType string // model_type of its config.json; "": not known
	Gated     bool
	Private   bool
	Files     []File // in the hub's order
}

// File is one file of a repository.
type File struct {
	Path string // with "/", always inside the repository
	Size int64  // negative: not known
	Sum  string // hexadecimal SHA-256, or git's SHA-1 of a small file; "": not known
}

// Limits of the hub's answers.
const (
	maxAnswerBytes = 32 << 20
	maxFiles       = 20_000
	maxResults     = 100
	maxFileBytes   = 1 << 50
)

// Search finds models, the most downloaded first. It finds only repositories with .safetensors
// files. The error is a Problem, or ctx's.
func (c *Client) Search(ctx context.Context, query Query) ([]Found, error) {
	limit := min(max(query.Limit, 1), maxResults)
	q := url.Values{"search": {query.Words}, "limit": {strconv.Itoa(limit)},
		"filter": {"safetensors"}, "sort": {"downloads"}, "direction": {"-1"},
		"expand": {"config", "downloads", "gated", "lastModified", "likes", "safetensors", "tags"}}
	if query.Owner != "" {
		q.Set("author", query.Owner)
	}
	text, err := c.json(ctx, fewFailures, "api/models?"+q.Encode())
	if err != nil {
		return nil, err
	}
	found, err := parseSearch(text)
	if err != nil {
		return nil, c.invalid(err)
	}
	return found[:min(len(found), limit)], nil
}

// Config returns the config.json of a repository. revision is as for Repository. It tries once. The
// error is a Problem, or ctx's.
func (c *Client) Config(ctx context.Context, id, revision string) ([]byte, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	revision = url.PathEscape(cmp.Or(revision, "main"))
	text, err := c.json(ctx, 1, id+"/resolve/"+revision+"/config.json")
	if err != nil {
		return nil, about(err, id)
	}
	if !json.Valid(text) {
		return nil, c.invalid(fmt.Errorf("the config.json of %s is not JSON", id))
	}
	return text, nil
}

// Repository returns the files of a repository. revision is a branch, a tag or a commit; "" means
// main. The error is a Problem, or ctx's.
func (c *Client) Repository(ctx context.Context, id, revision string) (Repository, error) {
	return c.repository(ctx, fewFailures, id, revision)
}

func (c *Client) repository(ctx context.Context, maxTries int, id, revision string) (Repository,
	error) {
	if revision == "" {
		revision = "main"
	}
	if err := CheckID(id); err != nil {
		return Repository{}, err
	}
	if !revisionForm.MatchString(revision) || strings.Contains(revision, "..") {
		return Repository{}, problem.New(problem.BadRequest,
			fmt.Sprintf("%q is not a revision", revision), "", "Enter a branch, a tag or a commit.")
	}
	text, err := c.json(ctx, maxTries,
		"api/models/"+id+"/revision/"+url.PathEscape(revision)+"?blobs=true")
	if err != nil {
		return Repository{}, about(err, id)
	}
	r, err := parseRepository(text)
	if err != nil {
		return Repository{}, c.invalid(err)
	}
	r.ID, r.Revision = id, revision
	return r, nil
}

// invalid returns the Problem for an answer that this package does not understand.
func (c *Client) invalid(err error) error {
	return problem.Wrap(problem.Upstream, err, "The hub's answer is not valid",
		"Check the hub's address: "+c.Endpoint())
}

// json fetches a document of the hub, and gives up after maxTries failures in a row.
func (c *Client) json(ctx context.Context, maxTries int, address string) ([]byte, error) {
	u, err := c.endpoint.Parse(strings.TrimSuffix(c.endpoint.Path, "/") + "/" + address)
	if err != nil {
		return nil, c.invalid(err)
	}
	var text []byte
	err = c.retry(ctx, maxTries, func() (bool, error) {
		answer, err := c.request(ctx, "GET", u, nil)
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
		if err == nil && len(text) > maxAnswerBytes {
			return false, c.invalid(fmt.Errorf("it exceeds %d bytes", maxAnswerBytes))
		}
		return false, broken(err)
	})
	return text, err
}

var (
	idForm = regexp.MustCompile(
		`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)
	revisionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	commitForm   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sumForm      = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// CheckID checks that id has the form of a repository's ID, "org/name". The error is a Problem.
func CheckID(id string) error {
	if !idForm.MatchString(id) || strings.Contains(id, "--") || strings.Contains(id, "..") {
		return problem.New(problem.BadRequest,
			fmt.Sprintf("%q is not the name of a repository", id),
			"", "Enter the name as on the hub, for example mlx-community/Qwen3-0.6B-4bit.")
	}
	return nil
}

// safePath reports whether a repository's path can be used as a path on this machine.
func safePath(p string) bool {
	if p == "" || len(p) > 1000 || !utf8.ValidString(p) || path.Clean(p) != p || path.IsAbs(p) ||
		p == ".." || strings.HasPrefix(p, "../") {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return !strings.ContainsFunc(p, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
}

// gated parses the hub's field, which is false, "auto" or "manual".
type gated bool

func (g *gated) UnmarshalJSON(text []byte) error {
	*g = string(text) != "false" && string(text) != "null"
	return nil
}

// modelConfig is the hub's excerpt of a config.json.
type modelConfig struct {
	ModelType string `json:"model_type"`
}

func parseSearch(text []byte) ([]Found, error) {
	var list []struct {
		ID           string      `json:"id"`
		Tags         []string    `json:"tags"`
		Downloads    float64     `json:"downloads"`
		Likes        float64     `json:"likes"`
		LastModified time.Time   `json:"lastModified"`
		Gated        gated       `json:"gated"`
		Config       modelConfig `json:"config"`
		Safetensors  struct {
			Parameters map[string]float64 `json:"parameters"`
		} `json:"safetensors"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	found := []Found{}
	for _, r := range list {
		if CheckID(r.ID) == nil {
			found = append(found, Found{ID: r.ID, ModelType: r.Config.ModelType, Tags: r.Tags,
				Downloads: int64(r.Downloads), Likes: int64(r.Likes),
				UpdatedAt: r.LastModified, Gated: bool(r.Gated), Licence: licenceOf(r.Tags),
				SizeBytes: weightsBytes(r.Safetensors.Parameters)})
		}
	}
	return found, nil
}

// licenceOf returns the licence that the tags name; "": none.
func licenceOf(tags []string) string {
	for _, t := range tags {
		if licence, ok := strings.CutPrefix(t, "license:"); ok {
			return licence
		}
	}
	return ""
}

// typeBits are the bits of a value of each type in .safetensors files.
var typeBits = map[string]float64{"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32,
	"F16": 16, "BF16": 16, "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8,
	"U8": 8, "BOOL": 8, "F4": 4}

// weightsBytes returns the size of weights with so many values of each type; 0: not known.
func weightsBytes(values map[string]float64) int64 {
	total := 0.0
	for name, n := range values {
		bits, ok := typeBits[name]
		if !ok || n < 0 || n > maxFileBytes {
			return 0
		}
		total += n * bits / 8
	}
	return int64(total)
}

func parseRepository(text []byte) (Repository, error) {
	var document struct {
		SHA      string      `json:"sha"`
		Private  bool        `json:"private"`
		Gated    gated       `json:"gated"`
		Config   modelConfig `json:"config"`
		Siblings []struct {
			Path   string `json:"rfilename"`
			Size   *int64 `json:"size"`
			BlobID string `json:"blobId"`
			LFS    *struct {
				Size   *int64 `json:"size"`
				SHA256 string `json:"sha256"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return Repository{}, err
	}
	if !commitForm.MatchString(document.SHA) {
		return Repository{}, fmt.Errorf("it names the commit %q", document.SHA)
	}
	if len(document.Siblings) > maxFiles {
		return Repository{}, fmt.Errorf("it lists %d files", len(document.Siblings))
	}
	r := Repository{Commit: document.SHA, Gated: bool(document.Gated), Private: document.Private,
		ModelType: document.Config.ModelType}
	seen := map[string]bool{}
	for _, s := range document.Siblings {
		if !safePath(s.Path) || seen[s.Path] {
			return Repository{}, fmt.Errorf("it lists the file %q", s.Path)
		}
		seen[s.Path] = true
		f := File{Path: s.Path, Size: -1}
		size, sum := s.Size, s.BlobID
		if s.LFS != nil {
			sum = s.LFS.SHA256
			if s.LFS.Size != nil {
				size = s.LFS.Size
			}
		}
		if size != nil {
			if f.Size = *size; f.Size < 0 || f.Size > maxFileBytes {
				return Repository{}, fmt.Errorf("it gives %q a size of %d bytes", s.Path, f.Size)
			}
		}
		if sumForm.MatchString(sum) {
			f.Sum = sum
		}
		r.Files = append(r.Files, f)
	}
	return r, nil
}
