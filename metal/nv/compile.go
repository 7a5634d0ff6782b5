//go:build linux

package nv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"headroom/metal/msl"
)

//go:embed include/*.h
var sources embed.FS

// compilers are tried in this order.
var compilers = []string{"clang-22", "clang-21", "clang-20", "clang-19"}

// arch is what is compiled for: PTX for compute capability 9.0, which later GPUs run too.
const arch = "sm_90"

// kernelFlags are those of metal/sim where they say what the language is, so that both devices round alike.
var kernelFlags = []string{
	"-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-nostdinc", "-cl-single-precision-constant", "-cl-fp32-correctly-rounded-divide-sqrt",
	"-Xclang", "-cl-ext=+cl_khr_fp16,-cl_khr_fp64,-__opencl_c_fp64,+__opencl_c_generic_address_space,+__opencl_c_program_scope_global_variables",
	"-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", arch, "-Xclang", "-target-feature", "-Xclang", "+ptx80",
	"-ffp-contract=off", "-O3", "-S", "-ferror-limit=20", "-fno-color-diagnostics",
	"-Wno-duplicate-decl-specifier", "-Wno-c++11-narrowing",
}

// headers are included before every source, in this order.
var headers = []string{"msl_types.h", "nv_threads.h", "msl_math.h", "nv_matrix.h", "nv_entry.h"}

// appleHeaders are what sources include in angle brackets; their contents are always there.
var appleHeaders = []string{
	"metal_stdlib", "metal_types", "metal_math", "metal_common", "metal_integer", "metal_atomic", "metal_simdgroup", "metal_simdgroup_matrix",
}

// entryName is the one kernel of a compiled file.
const entryName = "msl_entry"

// compiler turns kernels into PTX, and keeps them. The hash does not take in the compiler's version, so that files made by one
// machine's clang serve another that has none.
type compiler struct {
	clang, ptxas string // "" where there is none
	dir          string
	seed         string // of every hash: flags and headers
}

func newCompiler(dir string) (*compiler, error) {
	c := &compiler{dir: dir}
	for _, name := range compilers {
		if p, err := exec.LookPath(name); err == nil && c.clang == "" {
			c.clang = p
		}
	}
	c.ptxas, _ = exec.LookPath("ptxas") // of CUDA's toolkit, if somebody has it
	if c.dir == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no home: the system's temporary folder, in a folder of this user's own
			base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
		}
		c.dir = filepath.Join(base, "headroom", "metal-nv")
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("the cache of compiled kernels: %w", err)
	}
	h := sha256.New()
	fmt.Fprintln(h, kernelFlags, headers, appleHeaders)
	for _, tree := range []embed.FS{sources, msl.Headers} {
		err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := tree.ReadFile(name)
			fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	c.seed = string(h.Sum(nil))
	return c, nil
}

// kernel compiles one kernel with values for the program's function constants, and returns what the driver loads: machine code
// where ptxas was at hand, else PTX.
func (c *compiler) kernel(name string, program *msl.Program, k *msl.Kernel, values []uint32) ([]byte, error) {
	text := "namespace {\n" + program.OpenCL() + "\n}" + entry(k) // so that other kernels of the source are not compiled
	var definitions strings.Builder
	for i, f := range program.Constants {
		fmt.Fprintf(&definitions, "#define MSL_VALUE_%d %#xu\n", f.Index, values[i])
	}
	text = definitions.String() + text
	sum := sha256.Sum256([]byte(c.seed + text))
	file := filepath.Join(c.dir, fmt.Sprintf("%s-%s-%x", strings.TrimSuffix(path.Base(name), ".metal"), k.Name, sum[:8]))
	if code, err := os.ReadFile(file + ".cubin"); err == nil {
		return code, nil
	}
	code, err := os.ReadFile(file + ".ptx")
	if err == nil && c.ptxas == "" {
		return append(code, 0), nil // the driver wants a C string
	}
	if err != nil {
		if c.clang == "" {
			return nil, fmt.Errorf("%s: %s is not compiled, and there is no clang here: compile it elsewhere (Options.CompileOnly) into %s", name, k.Name, c.dir)
		}
		if code, err = c.compile(file, text); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, k.Name, err)
		}
	}
	if c.ptxas == "" {
		return append(code, 0), nil
	}
	if code, err = c.assemble(file); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", name, k.Name, err)
	}
	return code, nil
}

// compile makes file.ptx.
func (c *compiler) compile(file, text string) ([]byte, error) {
	dir, err := os.MkdirTemp(c.dir, "build-")
	if err != nil {
		return nil, fmt.Errorf("the cache of compiled kernels: %w", err)
	}
	defer os.RemoveAll(dir)
	err = errors.Join(copyFiles(dir, sources, "include"), copyFiles(dir, msl.Headers, "shim"),
		os.WriteFile(filepath.Join(dir, "kernel.clcpp"), []byte(text), 0o600))
	for _, h := range appleHeaders {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, h), nil, 0o600))
	}
	if err != nil {
		return nil, err
	}
	arguments := append([]string{"-I", dir}, kernelFlags...)
	for _, h := range headers {
		arguments = append(arguments, "-include", h)
	}
	if err := run(dir, c.clang, append(arguments, "-o", "kernel.ptx", "kernel.clcpp")...); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(filepath.Join(dir, "kernel.ptx"))
	if err != nil {
		return nil, err
	}
	if _, missing, found := strings.Cut(string(code), ".extern .func"); found {
		missing, _, _ = strings.Cut(missing, "\n;")
		return nil, fmt.Errorf("it calls what include/nv_threads.h does not define:%s", missing)
	}
	return code, os.Rename(filepath.Join(dir, "kernel.ptx"), file+".ptx")
}

// assemble makes file.cubin of file.ptx.
func (c *compiler) assemble(file string) ([]byte, error) {
	out := fmt.Sprintf("%s-%d", file, os.Getpid())
	if err := run(c.dir, c.ptxas, "-arch="+arch, "-O3", "-o", out, file+".ptx"); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(out)
	return code, errors.Join(err, os.Rename(out, file+".cubin"))
}

// longestCompile is generous: a compiler that takes longer hangs.
const longestCompile = 5 * time.Minute

// run runs a tool in dir. The error is what it said.
func run(dir, tool string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), longestCompile)
	defer cancel()
	command := exec.CommandContext(ctx, tool, arguments...)
	command.Dir = dir
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		text := strings.ReplaceAll(said.String(), dir+"/", "")
		if len(text) > 6000 {
			text = text[:6000] + "\n..."
		}
		return fmt.Errorf("%s: %w\n%s", filepath.Base(tool), err, text)
	}
	return nil
}

func copyFiles(dir string, from embed.FS, folder string) error {
	entries, err := from.ReadDir(folder)
	for _, e := range entries {
		text, readErr := from.ReadFile(path.Join(folder, e.Name()))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, e.Name()), text, 0o600))
	}
	return err
}

// entry is the C++ that makes a kernel callable: an address for each buffer, and each threadgroup argument's offset, eight bytes
// each in order of the arguments that are not positions.
func entry(k *msl.Kernel) string {
	var parameters, arguments []string
	for i, a := range k.Arguments {
		pointer := fmt.Sprintf("MSL_POINTER(msl_function, %d)", i)
		switch a.Kind {
		case msl.BufferArgument:
			restrict, star := "", ""
			if a.Constant {
				restrict = " __restrict" // nobody writes it, so loads of it can move
			}
			if a.Reference {
				star = "*"
			}
			parameters = append(parameters, fmt.Sprintf("%s%s a%d", pointer, restrict, i))
			arguments = append(arguments, fmt.Sprintf("%sa%d", star, i))
		case msl.ThreadgroupArgument:
			parameters = append(parameters, fmt.Sprintf("ulong a%d", i))
			arguments = append(arguments, fmt.Sprintf("(%s)msl_threadgroup_argument((uint)a%d)", pointer, i))
		default:
			arguments = append(arguments, fmt.Sprintf("msl::%s()", a.Attribute))
		}
	}
	return fmt.Sprintf("\n#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable\n#line 1 \"entry\"\ntypedef decltype(%s) msl_function;\n__kernel void %s(%s) { %s(%s); }\n",
		k.Expression, entryName, strings.Join(parameters, ", "), k.Expression, strings.Join(arguments, ", "))
}
