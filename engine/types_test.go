package engine_test

// The tiny models with which the tests of the whole engine run every architecture.

import (
	"os"
	"path/filepath"
	"testing"

	"headroom/engine"
	"headroom/engine/models/modelstest"
)

var tinyTree = os.DirFS(filepath.Join("models", "testdata", "tiny"))

// long reports whether the long forms of tests run.
func long() bool { return os.Getenv("HEADROOM_LONG") != "" }

// tinyModels returns the model of every registered type. engine/models checks that none is missing.
func tinyModels() []modelstest.Model {
	found, _ := modelstest.Find(tinyTree, engine.Architectures())
	return found
}

// eachArchitecture runs test with one model of every architecture, and with how much memory its
// cache takes.
func eachArchitecture(t *testing.T,
	test func(t *testing.T, src engine.Source, c engine.CacheCost)) {
	for _, m := range tinyModels() {
		if m.Shares() {
			continue
		}
		config, err := m.Config(tinyTree)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := engine.DescribeCache(config, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(m.Type, func(t *testing.T) { test(t, tinySource(t, m.Folder), cost) })
	}
}
