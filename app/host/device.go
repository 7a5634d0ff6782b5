package host

// What computes, where neither flags nor settings say it: whoever made the host is asked, with a
// model on its way in. A GPU may have to be tried first, which takes seconds once; and if it cannot
// be trusted, State says so until the host ends.

import (
	"headroom/engine"
)

// chooseDevice completes o. The error is that loading was stopped meanwhile.
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
