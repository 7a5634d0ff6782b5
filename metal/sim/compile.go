//go:build linux && amd64

package sim

import (
	"embed"
	"fmt"
	"path/filepath"
	"slices"

	"headroom/metal/clang"
	"headroom/metal/msl"
)

//go:embed include/*.h runtime/*.c runtime/*.h
var sources embed.FS

// kernelFlags compile a library in Metal's "safe" math mode: a*b+c is not contracted unless the
// source says fma, and sums are not reassociated. Floating-point constants are float. Headers and
// types that Metal lacks are disabled. -Wno-pass-failed silences a warning: clang does not unroll a
// loop with noduplicate calls (include/sim_threads.h), even if a pragma asks for it.
var kernelFlags = []string{
	"-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-nostdinc",
	"-Xclang", "-cl-ext=+cl_khr_fp16,-cl_khr_fp64,-__opencl_c_fp64",
	"-target", "x86_64-unknown-linux-gnu", "-march=x86-64-v3", "-fPIC",
	"-cl-single-precision-constant", "-ffp-contract=off",
	"-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-const-variable",
	"-Wno-unused-variable", "-Wno-pass-failed",
	"-ferror-limit=20", "-fno-color-diagnostics", "-fshow-overloads=best",
	"-fdebug-compilation-dir=" + sourceRoot,
}

// sourceRoot is the prefix of file names in debug information.
const sourceRoot = "/source"

var modeFlags = map[bool][]string{
	false: {"-O2", "-gline-tables-only", "-gdwarf-4"},
	true: {"-O1", "-gline-tables-only", "-gdwarf-4", "-fsanitize=thread", "-fno-vectorize",
		"-fno-slp-vectorize", "-mllvm", "-tsan-instrument-func-entry-exit=0"},
}

// headers are included before every source, in this order.
var headers = []string{"msl_types.h", "sim_threads.h", "msl_simdgroup.h", "msl_math.h",
	"sim_matrix.h", "msl_matrix.h", "msl_arguments.h", "sim_entry.h"}

// compiler compiles programs to shared libraries and caches them.
type compiler struct {
	clang   string
	version string
	check   bool
	cache   *clang.Cache
}

func newCompiler(o Options) (*compiler, error) {
	path, version, err := clang.Find()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	cache, err := clang.OpenCache(o.CacheDir, "metal-sim",
		[]any{version, kernelFlags, modeFlags[o.Check], headers}, sources)
	return &compiler{clang: path, version: version, check: o.Check, cache: cache}, err
}

// runtime compiles the runtime and returns its path.
func (c *compiler) runtime() (string, error) {
	file := c.cache.File("runtime", "") + ".so"
	return file, c.cache.Make(file, func(dir, out string) error {
		if err := clang.Copy(dir, clang.Folder{Files: sources, Path: "runtime"}); err != nil {
			return err
		}
		return c.run(dir, "-O2", "-fPIC", "-shared", "-Wl,-soname,"+filepath.Base(out), "-o", out,
			"fibers.c", "check.c", "dispatch.c", "-lpthread")
	})
}

// library compiles program and returns the path of its shared library.
func (c *compiler) library(name string, program *msl.Program) (string, error) {
	text := program.OpenCL() + entries(program)
	runtime, err := c.runtime()
	if err != nil {
		return "", err
	}
	file := c.cache.File(name, text) + ".so"
	return file, c.cache.Make(file, func(dir, out string) error {
		err := clang.WriteSource(dir, text, clang.Folder{Files: sources, Path: "include"},
			clang.Folder{Files: sources, Path: "runtime"})
		if err != nil {
			return err
		}
		arguments := slices.Concat(kernelFlags, clang.Include(dir, headers))
		if err := c.run(dir, slices.Concat(arguments, modeFlags[c.check],
			[]string{"-c", "-o", "kernels.o", clang.SourceFile})...); err != nil {
			return err
		}
		if err := c.lint(dir, arguments); err != nil {
			return err
		}
		return c.run(dir, "-O2", "-fPIC", "-shared", "-o", out, "kernels.o", "image.c", runtime,
			"-Wl,--no-undefined", "-lm")
	})
}

func (c *compiler) run(dir string, arguments ...string) error {
	_, err := clang.Run(dir, c.clang, arguments...)
	return err
}
