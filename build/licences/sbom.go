package main

// The software bill of materials, in the form of CycloneDX 1.6
// (https://cyclonedx.org/docs/1.6/json/): what is in the programs, with versions and checksums.
// The same tree gives the same bytes: there is no date and no random number.

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

type bill struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Purl       string     `json:"purl,omitempty"` // https://github.com/package-url/purl-spec
	Hashes     []checksum `json:"hashes,omitempty"`
	Licences   []licence  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type checksum struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"` // hexadecimal
}

type licence struct {
	Expression string `json:"expression"` // of SPDX
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom returns the bill of the programs and the web UI, in this version of Headroom.
func sbom(root, version string) ([]byte, error) {
	goParts, err := modules(root)
	if err != nil {
		return nil, err
	}
	sums, err := goSums(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	npmParts, err := npmPackages(root)
	if err != nil {
		return nil, err
	}
	b := bill{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{component{Type: "application", Ref: "headroom", Name: "headroom",
			Version: version}}}
	for _, p := range goParts {
		if p.name == "Go" {
			p.name, p.version = "std", strings.TrimPrefix(runtime.Version(), "go")
		}
		c := component{Type: "library", Name: p.name, Version: p.version,
			Purl: "pkg:golang/" + p.name + "@" + url.PathEscape(p.version)}
		// A checksum of go.sum covers the list of files, and is no checksum of an archive.
		if sum := sums[p.name+" "+p.version]; sum != "" {
			c.Properties = []property{{"go.sum", sum}}
		} else if p.name != "std" {
			return nil, fmt.Errorf("go.sum has no checksum of %s: run go mod tidy", p)
		}
		b.Components = append(b.Components, c)
	}
	for _, p := range npmParts {
		c := component{Type: "library", Name: p.name, Version: p.version,
			Purl: "pkg:npm/" + strings.Replace(p.name, "@", "%40", 1) + "@" + p.version}
		digest, ok := strings.CutPrefix(p.integrity, "sha512-")
		raw, err := base64.StdEncoding.DecodeString(digest)
		if !ok || err != nil {
			return nil, fmt.Errorf("frontend/package-lock.json has no SHA-512 of %s: run npm "+
				"install", p)
		}
		c.Hashes = []checksum{{"SHA-512", hex.EncodeToString(raw)}}
		if p.licence != "" {
			c.Licences = []licence{{p.licence}}
		}
		b.Components = append(b.Components, c)
	}
	for i := range b.Components {
		b.Components[i].Ref = b.Components[i].Purl
	}
	data, err := json.MarshalIndent(b, "", "  ")
	return append(data, '\n'), err
}

// goSums returns the checksums of modules in go.sum, by "path version".
func goSums(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && !strings.HasSuffix(f[1], "/go.mod") {
			sums[f[0]+" "+f[1]] = f[2]
		}
	}
	return sums, nil
}
