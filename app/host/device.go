package host

// The choice of a device where neither flags nor settings name one. Options.Device decides while a
// model is being loaded, because a GPU may have to pass its self-test first, which takes seconds.
// If the GPU fails it, State says so until the host ends.

import "headroom/engine"

// chooseDevice sets o.Device if it is empty. The error is that of t.context.
func (h *Host) chooseDevice(t *target, o *engine.Options) error {
	if o.Device != "" || h.options.Device == nil {
		return nil
	}
	device, trouble, err := h.options.Device(t.context)
	if err != nil {
		return err
	}
	o.Device = device
	h.mu.Lock()
	fresh := trouble != nil && h.notice == nil
	h.notice = trouble
	h.mu.Unlock()
	if fresh {
		h.log.Warn("the GPU is not used", "err", trouble)
	}
	return nil
}
