//go:build nv && linux

package nv

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"headroom/metal/clang"
	"headroom/metal/msl"
)

//go:embed include/*.h
var sources embed.FS

// arch is the target: compute capability 9.0. Later GPUs run its PTX too.
const arch = "sm_90"

// kernelFlags select the same language as metal/sim's flags, so that both devices round alike.
var kernelFlags = []string{
	"-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-nostdinc",
	"-cl-single-precision-constant", "-cl-fp32-correctly-rounded-divide-sqrt",
	"-Xclang",
	"-cl-ext=+cl_khr_fp16,-cl_khr_fp64,-__opencl_c_fp64,+__opencl_c_generic_address_space,+__opencl_c_program_scope_global_variables",
	"-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", arch, "-Xclang",
	"-target-feature", "-Xclang", "+ptx80",
	"-ffp-contract=off", "-O3", "-S", "-ferror-limit=20", "-fno-color-diagnostics",
	"-Wno-duplicate-decl-specifier", "-Wno-c++11-narrowing",
}

// headers are included before every source, in this order.
var headers = []string{"msl_types.h", "nv_threads.h", "msl_simdgroup.h", "msl_math.h",
	"nv_matrix.h", "msl_matrix.h", "msl_arguments.h", "nv_entry.h"}

// entryName is the only kernel of a compiled file.
const entryName = "msl_entry"

// compiler compiles kernels to PTX and caches them. The cache's hash leaves out the compiler's
// version, so that a machine without clang can use files compiled on another.
type compiler struct {
	clang, ptxas string // paths, "" if missing
	cache        *clang.Cache
}

func newCompiler(dir string) (*compiler, error) {
	path, _, err := clang.Find()
	if err != nil && !errors.Is(err, clang.ErrMissing) {
		return nil, err
	}
	ptxas, _ := exec.LookPath("ptxas") // optional, part of the CUDA toolkit
	cache, err := clang.OpenCache(dir, "metal-nv", []any{kernelFlags, headers}, sources)
	return &compiler{clang: path, ptxas: ptxas, cache: cache}, err
}

// kernel compiles a kernel with values for the program's function constants. It returns what the
// driver loads: machine code if ptxas compiled it, PTX otherwise.
func (c *compiler) kernel(name string, program *msl.Program, k *msl.Kernel,
	values []uint32) ([]byte, error) {
	// clang drops the other kernels of the source, since they are in an anonymous namespace
	text := "namespace {\n" + program.OpenCL() + "\n}" + entry(k)
	var definitions strings.Builder
	for i, f := range program.Constants {
		fmt.Fprintf(&definitions, "#define MSL_VALUE_%d %#xu\n", f.Index, values[i])
	}
	text = definitions.String() + text
	file := c.cache.File(strings.TrimSuffix(name, ".metal")+"-"+k.Name, text)
	ptx, machine := file+".ptx", file+".cubin"
	if c.cache.Have(machine) {
		return os.ReadFile(machine)
	}
	if !c.cache.Have(ptx) && c.clang == "" {
		return nil, fmt.Errorf("not compiled, and clang is missing: compile it on another machine "+
			"(Options.CompileOnly) into %s", c.cache.Dir())
	}
	err := c.cache.Make(ptx, func(dir, out string) error { return c.compile(dir, out, text) })
	if err == nil && c.ptxas != "" {
		err = c.cache.Make(machine, func(dir, out string) error {
			_, err := clang.Run(dir, c.ptxas, "-arch="+arch, "-O3", "-o", out, ptx)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if c.ptxas != "" {
		return os.ReadFile(machine)
	}
	code, err := os.ReadFile(ptx)
	return append(code, 0), err // the driver expects a C string
}

// compile compiles text to PTX in the file out.
func (c *compiler) compile(dir, out, text string) error {
	if err := clang.WriteSource(dir, text,
		clang.Folder{Files: sources, Path: "include"}); err != nil {
		return err
	}
	if _, err := clang.Run(dir, c.clang,
		slices.Concat(kernelFlags, clang.Include(dir, headers),
			[]string{"-o", out, clang.SourceFile})...); err != nil {
		return err
	}
	code, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if _, missing, found := strings.Cut(string(code), ".extern .func"); found {
		missing, _, _ = strings.Cut(missing, "\n;")
		return &clang.CompileError{Text: "it calls a function that include/nv_threads.h does not " +
			"define:" + missing}
	}
	return nil
}

// entry returns the C++ source of the entry point through which the driver calls a kernel. The
// entry point has a parameter of eight bytes for each argument of the kernel that is not a
// position, in order: the address of a buffer, or the offset of a threadgroup argument.
func entry(k *msl.Kernel) string {
	var parameters, arguments []string
	for i, a := range k.Arguments {
		pointer := fmt.Sprintf("MSL_POINTER(msl_function, %d)", i)
		switch a.Kind {
		case msl.BufferArgument:
			restrict, star := "", ""
			if a.Constant {
				restrict = " __restrict" // no thread writes it, so the compiler may move loads
			}
			if a.Reference {
				star = "*"
			}
			parameters = append(parameters, fmt.Sprintf("%s%s a%d", pointer, restrict, i))
			arguments = append(arguments, fmt.Sprintf("%sa%d", star, i))
		case msl.ThreadgroupArgument:
			parameters = append(parameters, fmt.Sprintf("ulong a%d", i))
			arguments = append(arguments,
				fmt.Sprintf("(%s)msl_threadgroup_argument((uint)a%d)", pointer, i))
		default:
			arguments = append(arguments, fmt.Sprintf("msl::%s()", a.Attribute))
		}
	}
	return fmt.Sprintf(
		"\n#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable\n#line 1 "+
			"\"entry\"\ntypedef decltype(%s) msl_function;\n__kernel void %s(%s) { %s(%s); }\n",
		k.Expression, entryName, strings.Join(parameters, ", "), k.Expression,
		strings.Join(arguments, ", "))
}
