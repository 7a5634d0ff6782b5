package power

// IOKit's power sources
// (https://developer.apple.com/documentation/iokit/1523839-iopscopypowersourcesinfo) and
// NSProcessInfo's thermal state
// (https://developer.apple.com/documentation/foundation/processinfo/thermalstate-swift.enum). Both
// calls are cheap: they read cached values.

import (
	"bytes"
	"sync"

	"github.com/ebitengine/purego"
	"github.com/ebitengine/purego/objc"
)

// sources has the functions and objects of the system that Read uses.
type sources struct {
	copyInfo  func() uintptr
	providing func(info uintptr) uintptr // a CFString owned by info
	text      func(value uintptr, buffer *byte, bytes int, encoding uint32) bool
	release   func(value uintptr)
	process   objc.ID // NSProcessInfo, which lives as long as the program
	thermal   objc.SEL
}

var readers = sync.OnceValues(func() (*sources, error) {
	s := new(sources)
	var libraries [3]uintptr
	for i, name := range []string{"IOKit", "CoreFoundation", "Foundation"} {
		var err error
		if libraries[i], err = purego.Dlopen("/System/Library/Frameworks/"+name+".framework/"+name,
			purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, err
		}
	}
	purego.RegisterLibFunc(&s.copyInfo, libraries[0], "IOPSCopyPowerSourcesInfo")
	purego.RegisterLibFunc(&s.providing, libraries[0], "IOPSGetProvidingPowerSourceType")
	purego.RegisterLibFunc(&s.text, libraries[1], "CFStringGetCString")
	purego.RegisterLibFunc(&s.release, libraries[1], "CFRelease")
	s.process = objc.ID(objc.GetClass("NSProcessInfo")).Send(objc.RegisterName("processInfo"))
	s.thermal = objc.RegisterName("thermalState")
	return s, nil
})

// Read returns the current state.
func Read() State {
	s, err := readers()
	if err != nil {
		return State{}
	}
	return State{s.source(), s.thermalState()}
}

func (s *sources) source() Source {
	info := s.copyInfo()
	if info == 0 {
		return Unknown
	}
	defer s.release(info)
	value := s.providing(info)
	buffer := make([]byte, 64)
	if value == 0 || !s.text(value, &buffer[0], len(buffer), utf8Encoding) {
		return Unknown
	}
	name, _, _ := bytes.Cut(buffer, []byte{0})
	switch string(name) {
	case "AC Power": // kIOPMACPowerKey
		return AC
	case "Battery Power", "UPS Power": // kIOPMBatteryPowerKey, kIOPMUPSPowerKey
		return Battery
	}
	return Unknown
}

func (s *sources) thermalState() ThermalState {
	states := []ThermalState{Nominal, Fair, Serious, Critical} // NSProcessInfoThermalState
	if n := objc.Send[int](s.process, s.thermal); n >= 0 && n < len(states) {
		return states[n]
	}
	return Unmeasured
}
