//go:build cuda

package main

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// A device is the GPU that this process holds, with what every request needs.
type device struct {
	info       wire.Device
	stream     cu.Stream
	begin, end cu.Event
	events     []cu.Event // for the passes of a reading, once something is timed
	nvml       *monitor
	share      int // how many processes share it; 0 when this one has it alone
	chosen     map[string]choice
}

// openDevice makes the context current on the calling thread, which must be
// locked. It is the device's primary context, which a vendor's library shares.
func openDevice(share int) (*device, error) {
	n, err := cu.NumDevices()
	if err != nil {
		return nil, check("cuDeviceGetCount", err)
	}
	if n == 0 {
		return nil, errors.New("no GPU is visible; is CUDA_VISIBLE_DEVICES right?")
	}
	dev, err := cu.GetDevice(0)
	if err != nil {
		return nil, check("cuDeviceGet", err)
	}
	// Waiting spins where launches are timed: an answer comes some 10 us earlier
	// than by sleeping.
	flags := cu.SchedSpin
	if share > 0 {
		flags = cu.SchedBlockingSync
	}
	if err := check("cuDevicePrimaryCtxSetFlags", dev.SetPrimaryCtxFlags(flags)); err != nil {
		return nil, err
	}
	ctx, err := dev.RetainPrimaryCtx()
	if err != nil {
		return nil, check("cuDevicePrimaryCtxRetain", err)
	}
	if err := check("cuCtxSetCurrent", cu.SetCurrentContext(ctx)); err != nil {
		return nil, err
	}
	d := &device{share: share}
	if d.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return nil, check("cuStreamCreate", err)
	}
	for _, e := range []*cu.Event{&d.begin, &d.end} {
		if *e, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			return nil, check("cuEventCreate", err)
		}
	}
	if err := d.describe(dev); err != nil {
		return nil, err
	}
	d.nvml, d.info.DriverString, d.info.NVML = openMonitor(d.info.UUID)
	d.nvml.settings(&d.info)
	return d, nil
}

// describe fills in what the driver says of the device.
func (d *device) describe(dev cu.Device) error {
	var err error
	i := &d.info
	if i.Name, err = dev.Name(); err != nil {
		return check("cuDeviceGetName", err)
	}
	uuid, err := dev.UUID()
	if err != nil {
		return check("cuDeviceGetUuid", err)
	}
	i.UUID = "GPU-" + uuid.String()
	if i.MemoryBytes, err = dev.TotalMem(); err != nil {
		return check("cuDeviceTotalMem", err)
	}
	optin, err := sharedOptin(dev)
	if err != nil {
		return err
	}
	i.SharedOptin = int64(optin)
	var major, minor, l2 int
	for _, a := range []struct {
		to *int
		is cu.DeviceAttribute
	}{
		{&major, cu.ComputeCapabilityMajor},
		{&minor, cu.ComputeCapabilityMinor},
		{&i.SMs, cu.MultiprocessorCount},
		{&l2, cu.L2CacheSize},
		{&i.RegistersSM, cu.MaxRegistersPerMultiprocessor},
		{&i.ThreadsSM, cu.MaxThreadsPerMultiprocessor},
		{&i.ClockKHz, cu.ClockRate},
		{&i.MemoryKHz, cu.MemoryClockRate},
		{&i.BusBits, cu.GlobalMemoryBusWidth},
	} {
		if *a.to, err = dev.Attribute(a.is); err != nil {
			return check(fmt.Sprintf("cuDeviceGetAttribute(%d)", a.is), err)
		}
	}
	i.Capability, i.L2Bytes = 10*major+minor, int64(l2)
	i.CUDADriver = cu.Version()
	i.Mapping = mapsMemory(dev)
	i.GraphLaunch = true
	return nil
}

// sync waits until the device has done all it was given.
func (d *device) sync() error { return check("cuCtxSynchronize", cu.Synchronize()) }
