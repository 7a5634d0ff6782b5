package check

import (
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestGeneratedTypes: the web UI's types are those of the control API. The Go types give
// openapi.json, which gives schema.ts.
func TestGeneratedTypes(t *testing.T) {
	const folder, current = "frontend/src/lib/backend/", "TestFrontendHasThisDocument"
	out, err := exec.Command("go", "test", "-v", "-run", "^"+current+"$",
		"headroom/app/control").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+current) {
		t.Errorf("openapi.json is stale, or its test is gone: %v\n%s", err, out)
	}
	if why := staleTypes(repositoryText(t, folder+"openapi.json"),
		repositoryText(t, folder+"schema.ts")); why != "" {
		t.Error(why)
	}
}

// staleTypes says why the types are not those of the document, "" if they are.
func staleTypes(document, types string) string {
	want := fmt.Sprintf("// SHA-256 of openapi.json: %x", sha256.Sum256([]byte(document)))
	if header := strings.SplitN(types, "\n", 3); len(header) < 3 || header[1] != want {
		return "schema.ts is stale: its second line is not " + want +
			": run `npm run generate` in frontend"
	}
	return ""
}

func TestGeneratedTypesCanFail(t *testing.T) {
	document := `{"openapi":"3.1.0"}`
	types := fmt.Sprintf("// Code generated\n// SHA-256 of openapi.json: %x\n//\n",
		sha256.Sum256([]byte(document)))
	for _, c := range []struct {
		name, document, types string
		stale                 bool
	}{
		{"current", document, types, false},
		{"another document", document + " ", types, true},
		{"no checksum", document, "// Code generated\n//\n//\n", true},
		{"empty", document, "", true},
	} {
		if got := staleTypes(c.document, c.types); got != "" != c.stale {
			t.Errorf("%s: got %q, want an error: %v", c.name, got, c.stale)
		}
	}
}
