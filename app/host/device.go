package host

// The choice of a device when neither flags nor settings name one. Options.Device decides while a
// model is being loaded, because a GPU may have to pass its self-test first, which takes seconds.
// If the GPU fails the test, State says so until the host ends.

import "headroom/engine"

// chooseDevice sets o.Device if it is empty. It fails only with the error of t.context.
func (h *Host) chooseDevice(t *target, o *engine.Options) error {
	if o.Device != "" || h.options.Device == nil {
		return nil
	}
	device, warning, err := h.options.Device(t.context)
	if err != nil {
		return err
	}
	o.Device = device
	h.mu.Lock()
	isNew := warning != nil && h.deviceWarning == nil
	h.deviceWarning = warning
	h.mu.Unlock()
	if isNew {
		h.log.Warn("the GPU is not used", "err", warning)
	}
	return nil
}
