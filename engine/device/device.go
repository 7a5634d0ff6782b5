// Package device opens a compute device by name. Only this package depends on all devices. Other
// packages of the engine use the interface kernels.Device.
package device

import (
	"errors"
	"log/slog"
	"math"

	"headroom/engine/problem"
	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/darwin"
	"headroom/metal/sim"
)

// The names of the devices.
const (
	CPU   = "cpu"
	Metal = "metal" // a Mac's GPU
	// Sim runs the Metal kernels on a simulated GPU, for development on Linux. It computes the same
	// bits as Metal, but is very slow.
	Sim = "sim"
	// NV runs the Metal kernels on an NVIDIA GPU, for development. It needs Linux and the build tag
	// nv. Released programs are built without that tag.
	NV = "nv"
)

// Options choose a device. The zero value opens the Mac's GPU, or the CPU where there is none.
type Options struct {
	Name    string // CPU, Metal, Sim or NV; "": Metal if it opens, else CPU
	Threads int    // compute threads on the CPU; 0: one per performance core
	// Float32Activations stops the CPU from quantizing activations; see kernels/cpu.Options.
	Float32Activations bool
	// OpenMetal opens the device named Metal; nil: opens the Mac's GPU. Device.Close closes it.
	OpenMetal func() (metal.Device, error)
	// Times measures the time of each operator, on the CPU only; nil: nothing is measured.
	Times *kernels.OperatorTimes
}

// Device is an open device.
type Device struct {
	Kernels kernels.Device
	Name    string       // Options.Name, or the name of the chosen device if that was empty
	metal   metal.Device // nil on the CPU
	gpu     *gpu.Device  // the same device as Kernels; nil on the CPU
}

// Open opens a device. Errors are Problems.
func Open(o Options) (*Device, error) {
	if o.Name == "" {
		m, err := o.openMetal()
		if err != nil {
			o.Name = CPU
			return Open(o)
		}
		o.Name, o.OpenMetal = Metal, func() (metal.Device, error) { return m, nil }
	}
	if o.Name == CPU {
		var d kernels.Device = kernels.NewCPU(cpu.Options{Threads: o.Threads,
			Float32Activations: o.Float32Activations})
		if o.Times != nil {
			d = kernels.NewTimedDevice(d, o.Times)
		}
		return &Device{Kernels: d, Name: CPU}, nil
	}
	m, err := OpenGPU(o)
	if err != nil {
		return nil, err
	}
	d, err := gpu.New(m)
	if err != nil {
		m.Close()
		return nil, problem.Wrap(problem.DoesNotFit, err, "The GPU cannot allocate memory",
			"Close other apps, or pick a smaller model.")
	}
	return &Device{Kernels: d, Name: o.Name, metal: m, gpu: d}, nil
}

// OpenGPU opens the device named Metal, Sim or NV without kernels. Errors are Problems.
func OpenGPU(o Options) (m metal.Device, err error) {
	switch o.Name {
	case Metal:
		if m, err = o.openMetal(); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err, "This computer has no Metal device",
				"Run the model on the CPU: --device cpu.")
		}
	case Sim:
		if m, err = sim.Open(sim.Options{Threads: o.Threads}); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err,
				"The simulated Metal device cannot run",
				"Install clang, or run the model on the CPU: --device cpu.")
		}
	case NV:
		if m, err = openNV(); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err, "The NVIDIA device is not available",
				"Run the model on the CPU: --device cpu.")
		}
	default:
		return nil, problem.Wrap(problem.BadRequest, errors.New(o.Name),
			"There is no such device", "Use cpu, metal, sim or nv.")
	}
	return m, nil
}

func (o *Options) openMetal() (metal.Device, error) {
	if o.OpenMetal != nil {
		return o.OpenMetal()
	}
	return darwin.Open()
}

// Close frees the device. Nothing may be running on it.
func (d *Device) Close() {
	d.Kernels.Close()
	if d.metal != nil {
		d.metal.Close()
	}
}

// GPU returns the GPU, or nil if the device is the CPU.
func (d *Device) GPU() *gpu.Device { return d.gpu }

// Facts returns the facts of the GPU, none if the device is the CPU.
func (d *Device) Facts() (f metal.Facts) {
	if d.metal != nil {
		f = d.metal.Facts()
	}
	return f
}

// LongestBuffer returns the size in bytes of the device's longest buffer, 0 if there is no limit.
func (d *Device) LongestBuffer() int {
	if d.metal == nil {
		return 0
	}
	f := d.metal.Facts()
	return int(min(f.MaxBufferLength, math.MaxInt)) / f.PageBytes * f.PageBytes
}

// Kind returns a name that d shares with all devices that compute the same bits.
func (d *Device) Kind() string {
	switch d.Name {
	case Metal, Sim:
		return Metal
	case NV: // another GPU and another compiler
		return NV
	}
	return CPU
}

// LogCopies logs whether some weights are in memory twice: in the mapped file and in a copy for the
// GPU.
func (d *Device) LogCopies() {
	if d.gpu == nil {
		return
	}
	if bytes, why := d.gpu.Copied(); bytes > 0 {
		slog.Info("the GPU needs a copy of some weights", "bytes", bytes, "why", why)
	}
}

// KeepResident keeps the model's memory resident on the GPU. Otherwise the first token after an
// idle period would wait until the memory is mapped again.
func (d *Device) KeepResident() {
	if d.gpu == nil {
		return
	}
	if err := d.gpu.MakeResident(); err != nil {
		slog.Warn("the model's memory cannot be kept resident on the GPU; "+
			"the first token after an idle period may be late", "err", err)
	}
}
