package engine

// Which machine computes. The engine knows devices by what they do alone (kernels.Device); here
// their names become one.

import (
	"errors"
	"log/slog"

	"headroom/engine/problem"
	"headroom/kernels"
	"headroom/kernels/cpu"
	"headroom/kernels/gpu"
	"headroom/metal"
	"headroom/metal/darwin"
	"headroom/metal/nv"
	"headroom/metal/sim"
)

// Devices are the values of Options.Device.
const (
	DeviceCPU   = "cpu"
	DeviceMetal = "metal" // a Mac's GPU
	// the same Metal kernels on a simulated GPU, for development on Linux: right, and very slow
	DeviceSim = "sim"
	DeviceNV  = "nv" // the same Metal kernels on an NVIDIA GPU, for development
)

// openDevice opens the device that o asks for, and puts its name in o if any would do. Errors are
// Problems.
func openDevice(o *Options) (kernels.Device, error) {
	var m metal.Device
	var err error
	switch o.Device {
	case "":
		if m, err = o.openMetal(); err != nil {
			o.Device = DeviceCPU
			return openDevice(o)
		}
		o.Device = DeviceMetal
	case DeviceCPU:
		d := kernels.NewCPU(cpu.Options{Threads: o.Threads,
			Float32Activations: o.Float32Activations})
		if o.Times != nil {
			d = kernels.NewTimed(d, o.Times)
		}
		return d, nil
	case DeviceMetal:
		if m, err = o.openMetal(); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err, "There is no Metal device here",
				"Run the model on the CPU: --device cpu.")
		}
	case DeviceSim:
		if m, err = sim.Open(sim.Options{Threads: o.Threads}); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err,
				"The simulated Metal device cannot run here",
				"Install clang, or run the model on the CPU: --device cpu.")
		}
	case DeviceNV:
		if m, err = nv.Open(nv.FromEnvironment()); err != nil {
			return nil, problem.Wrap(problem.DoesNotFit, err, "There is no NVIDIA GPU to use here",
				"Run the model on the CPU: --device cpu.")
		}
	default:
		return nil, problem.Wrap(problem.BadRequest, errors.New(o.Device),
			"There is no such device", "Say cpu, metal, sim or nv.")
	}
	d, err := gpu.New(m)
	if err != nil {
		m.Close()
		return nil, problem.Wrap(problem.DoesNotFit, err, "The Metal device refused memory",
			"Close other apps, or pick a smaller model.")
	}
	return metalDevice{d, m}, nil
}

func (o *Options) openMetal() (metal.Device, error) {
	if o.OpenMetal != nil {
		return o.OpenMetal()
	}
	return darwin.Open()
}

// noteCopies logs that weights take memory twice: once as the file's pages, once as the GPU's.
func noteCopies(d kernels.Device) {
	if m, ok := d.(metalDevice); ok {
		if bytes, why := m.Copied(); bytes > 0 {
			slog.Info("weights were copied, as the GPU cannot use them where they lie", "bytes",
				bytes, "why", why)
		}
	}
}

// keepResident wires what the model has for the GPU, so that the first token after a rest does not
// wait for it.
func keepResident(d kernels.Device) {
	if m, ok := d.(metalDevice); ok {
		if err := m.MakeResident(); err != nil {
			slog.Warn(
				"the model's memory is not kept resident, so answers after a rest may begin late",
				"err", err)
		}
	}
}

// metalDevice closes the Metal device with the operators' device on top of it.
type metalDevice struct {
	*gpu.Device
	metal metal.Device
}

func (d metalDevice) Close() {
	d.Device.Close()
	d.metal.Close()
}

// deviceKind names what the bits of a result depend on: devices of one kind give the same. The
// device must be open.
func deviceKind(o *Options) string {
	switch o.Device {
	case DeviceMetal, DeviceSim:
		return DeviceMetal
	case DeviceNV: // another GPU, another compiler
		return DeviceNV
	}
	return DeviceCPU
}
