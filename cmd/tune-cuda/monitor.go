//go:build cuda

package main

import (
	"bytes"
	"os"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A monitor reads the state of one device through NVML. A nil monitor reads
// nothing.
type monitor struct {
	device nvml.Device
}

// openMonitor also returns the driver's version, or why there is no monitor.
func openMonitor(uuid string) (m *monitor, driver, why string) {
	if r := nvml.Init(); r != nvml.SUCCESS {
		return nil, "", "NVML does not start: " + nvml.ErrorString(r)
	}
	driver, _ = nvml.SystemGetDriverVersion()
	d, r := nvml.DeviceGetHandleByUUID(uuid)
	if r != nvml.SUCCESS {
		return nil, driver, "NVML does not know " + uuid + ": " + nvml.ErrorString(r)
	}
	return &monitor{d}, driver, ""
}

// reasons why clocks are below their highest, but for idleness.
var reasons = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonApplicationsClocksSetting, "applications clocks"},
	{nvml.ClocksEventReasonSwPowerCap, "power cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
	{nvml.ClocksEventReasonSyncBoost, "sync boost"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "thermal slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hardware thermal slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
	{nvml.ClocksEventReasonDisplayClockSetting, "display clocks"},
}

// state reads what can be read.
func (m *monitor) state() wire.State {
	var s wire.State
	if m == nil {
		return s
	}
	if v, r := m.device.GetClockInfo(nvml.CLOCK_SM); r == nvml.SUCCESS {
		s.SMClockMHz = int(v)
	}
	if v, r := m.device.GetClockInfo(nvml.CLOCK_MEM); r == nvml.SUCCESS {
		s.MemoryClockMHz = int(v)
	}
	if v, r := m.device.GetPowerUsage(); r == nvml.SUCCESS {
		s.PowerWatts = float64(v) / 1000
	}
	if v, r := m.device.GetTemperature(nvml.TEMPERATURE_GPU); r == nvml.SUCCESS {
		s.Celsius = int(v)
	}
	if v, r := m.device.GetCurrentClocksThrottleReasons(); r == nvml.SUCCESS {
		for _, k := range reasons {
			if v&k.bit != 0 {
				s.Throttle = append(s.Throttle, k.name)
			}
		}
	}
	if v, r := m.device.GetMemoryInfo(); r == nvml.SUCCESS {
		s.UsedBytes = int64(v.Used)
	}
	if v, r := m.device.GetComputeRunningProcesses(); r == nvml.SUCCESS {
		pids := make([]int, len(v))
		for i, p := range v {
			pids[i] = int(p.Pid)
		}
		s.OtherProcesses = strangers(pids, os.Getpid(), parentOf)
	}
	return s
}

// parentOf reads a process's parent; 0 when there is no such process.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything; the parent is two fields on.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	p, _ := strconv.Atoi(string(f[1]))
	return p
}
