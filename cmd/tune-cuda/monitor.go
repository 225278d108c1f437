//go:build cuda

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A monitor reads the state of one device through NVML. A nil monitor reads
// nothing.
type monitor struct {
	device nvml.Device
	// seen is the time of the newest utilization that was read, in microseconds
	// since 1970.
	seen uint64
	// known and busy are what was seen when the processes were listed last.
	listed time.Time
	known  []wire.Process
	busy   int
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
	return &monitor{device: d}, driver, ""
}

// reasons why clocks are below their highest, but for idleness.
var reasons = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonApplicationsClocksSetting, "applications clocks"},
	{nvml.ClocksEventReasonSwPowerCap, "power cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, wire.HardwareSlowdown},
	{nvml.ClocksEventReasonSyncBoost, "sync boost"},
	{nvml.ClocksEventReasonSwThermalSlowdown, wire.ThermalSlowdown},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, wire.HardwareThermalSlowdown},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, wire.PowerBrake},
	{nvml.ClocksEventReasonDisplayClockSetting, "display clocks"},
}

// settings reads what the device is set to: part of what its results depend on.
func (m *monitor) settings(d *wire.Device) {
	if m == nil {
		return
	}
	if v, r := m.device.GetEnforcedPowerLimit(); r == nvml.SUCCESS {
		d.PowerLimitWatts = int(v+500) / 1000
	}
	if v, r := m.device.GetMaxClockInfo(nvml.CLOCK_SM); r == nvml.SUCCESS {
		d.MaxClockMHz = int(v)
	}
	// NVIDIA has announced that it will go; to call what is not there ends the
	// process.
	if nvml.Extensions().LookupSymbol("nvmlDeviceGetApplicationsClock") != nil {
		return
	}
	if v, r := m.device.GetApplicationsClock(nvml.CLOCK_SM); r == nvml.SUCCESS {
		d.AppClockMHz = int(v)
	}
	if v, r := m.device.GetApplicationsClock(nvml.CLOCK_MEM); r == nvml.SUCCESS {
		d.AppMemoryClockMHz = int(v)
	}
}

// state reads what can be read, the processes on the device only if they are
// wanted.
func (m *monitor) state(processes bool) wire.State {
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
	if !processes {
		return s
	}
	if v, r := m.device.GetMemoryInfo(); r == nvml.SUCCESS {
		s.UsedBytes = int64(v.Used)
	}
	// The driver samples what processes do a few times a second, and to list them
	// takes as long as a round of timing.
	if time.Since(m.listed) >= listEvery {
		m.listed = time.Now()
		m.known, m.busy = m.others(), 0
		if v, r := m.device.GetUtilizationRates(); r == nvml.SUCCESS {
			m.busy = int(v.Gpu)
		}
	}
	s.Others, s.Utilization = m.known, m.busy
	return s
}

// listEvery is how long a list of processes serves.
const listEvery = 250 * time.Millisecond

// others lists the processes on the device that are not of evotune's family.
func (m *monitor) others() []wire.Process {
	listed, r := m.device.GetComputeRunningProcesses()
	if r != nvml.SUCCESS {
		return nil
	}
	pids := make([]int, len(listed))
	bytes := map[int]int64{}
	for i, p := range listed {
		pids[i] = int(p.Pid)
		if p.UsedGpuMemory != notAvailable {
			bytes[pids[i]] = int64(p.UsedGpuMemory)
		}
	}
	busy := m.utilization()
	var list []wire.Process
	for _, pid := range strangers(pids, os.Getpid(), parentOf) {
		list = append(list, wire.Process{PID: pid, Name: processName(pid), Bytes: bytes[pid], Percent: busy[pid]})
	}
	return list
}

// notAvailable is what NVML says of memory that it does not know.
const notAvailable = 1<<64 - 1

// utilization is how busy processes kept the multiprocessors, in percent, since
// it was asked last, or in the last second.
func (m *monitor) utilization() map[int]int {
	since := max(m.seen, uint64(time.Now().Add(-time.Second).UnixMicro()))
	samples, r := m.device.GetProcessUtilization(since)
	if r != nvml.SUCCESS {
		return nil // there is no newer sample, or the device keeps none
	}
	busy := map[int]int{}
	for _, s := range samples {
		if s.TimeStamp <= since || s.SmUtil > 100 {
			continue // what the driver has left unset
		}
		busy[int(s.Pid)] = max(busy[int(s.Pid)], int(s.SmUtil))
		m.seen = max(m.seen, s.TimeStamp)
	}
	return busy
}

// processName names a process, without its folder.
func processName(pid int) string {
	if line, r := nvml.SystemGetProcessName(pid); r == nvml.SUCCESS && line != "" {
		name, _, _ := strings.Cut(line, " ") // what follows are arguments
		return filepath.Base(name)
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
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
