package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSBOM: the bill lists exactly the software in THIRD_PARTY.md, each with a package URL and a
// checksum, and is the same each time.
func TestSBOM(t *testing.T) {
	data, err := sbom("../..", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := sbom("../..", "v1.2.3"); err != nil || !bytes.Equal(again, data) {
		t.Errorf("another bill the second time, %v", err)
	}
	var b bill
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%+v", b.Metadata)
	}
	page, err := os.ReadFile("../../build/THIRD_PARTY.md")
	if err != nil {
		t.Fatal(err)
	}
	want := named(string(page))
	purl := regexp.MustCompile(`^pkg:(golang|npm)/[A-Za-z0-9._%~!/-]+@[A-Za-z0-9._%+-]+$`)
	refs := map[string]bool{}
	for _, c := range b.Components {
		name := strings.TrimSpace(c.Name + " " + c.Version)
		if c.Name == "std" {
			name = "Go"
		}
		if !slices.Contains(want, name) {
			t.Errorf("%s is not in THIRD_PARTY.md", name)
		}
		if !purl.MatchString(c.Purl) || refs[c.Ref] {
			t.Errorf("%s has the package URL %q, reference %q", name, c.Purl, c.Ref)
		}
		if refs[c.Ref] = true; len(c.Hashes)+len(c.Properties) == 0 && c.Name != "std" {
			t.Errorf("%s has no checksum", name)
		}
	}
	if len(b.Components) != len(want) {
		t.Errorf("%d components, THIRD_PARTY.md has %d", len(b.Components), len(want))
	}
}
