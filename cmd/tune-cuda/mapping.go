//go:build cuda

package main

/*
#include <cuda.h>
#include <string.h>

// A mapping is memory in the middle of a range of addresses, of which one page or more on either side is not
// mapped.
struct mapping {
	CUdeviceptr range, at;
	size_t reserved, bytes;
	CUmemGenericAllocationHandle memory;
	int created, mapped;
};

static void unmap_memory(struct mapping *m)
{
	if (m->mapped)
		cuMemUnmap(m->at, m->bytes);
	if (m->created)
		cuMemRelease(m->memory);
	if (m->range)
		cuMemAddressFree(m->range, m->reserved);
	memset(m, 0, sizeof *m);
}

#define STEP(name, x) do { *call = #name; if ((r = name x) != CUDA_SUCCESS) { unmap_memory(m); return r; } } while (0)

static CUresult map_memory(CUdevice device, size_t bytes, struct mapping *m, const char **call)
{
	CUresult r;
	size_t page;
	CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemAccessDesc access = {.location = kind.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	STEP(cuMemGetAllocationGranularity, (&page, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	m->bytes = (bytes + page - 1) / page * page;
	m->reserved = m->bytes + 2 * page;
	STEP(cuMemAddressReserve, (&m->range, m->reserved, 0, 0, 0));
	m->at = m->range + page;
	STEP(cuMemCreate, (&m->memory, m->bytes, &kind, 0));
	m->created = 1;
	STEP(cuMemMap, (m->at, m->bytes, 0, m->memory, 0));
	m->mapped = 1;
	STEP(cuMemSetAccess, (m->at, m->bytes, &access, 1));
	return CUDA_SUCCESS;
}

static int maps_memory(CUdevice device)
{
	int v = 0;
	CUresult r = cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
	return r == CUDA_SUCCESS && v;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/cu"

	"github.com/evotune/evotune/evaluator/cuda/wire"
)

// mapsMemory says whether the driver maps memory at addresses of one's choice.
func mapsMemory(d cu.Device) bool { return C.maps_memory(C.CUdevice(d)) != 0 }

// A mapping is device memory of its own, with pages on both sides that are not mapped.
type mapping struct{ c C.struct_mapping }

func (m *mapping) free() { C.unmap_memory(&m.c) }

// newMapping maps memory for so many bytes.
func newMapping(bytes int64) (*mapping, error) {
	m := &mapping{}
	var call *C.char
	if r := C.map_memory(0, C.size_t(max(bytes, 1)), &m.c, &call); r != C.CUDA_SUCCESS {
		return nil, newDriverError(C.GoString(call), int(r))
	}
	return m, nil
}

// mappedBlock gives a block that begins or ends where mapped memory does.
func mappedBlock(bytes int64, where string) (block, error) {
	m, err := newMapping(bytes)
	if err != nil {
		return block{}, err
	}
	offset, before, after := planMapped(bytes, int64(m.c.bytes), where)
	at := cu.DevicePtr(uint64(m.c.at) + uint64(offset))
	return block{at: at, bytes: bytes, before: before, after: after, mapped: m}, nil
}

// An unmappedError says why there is no mapped memory for a comparison.
type unmappedError struct{ error }

// memory gives the set and the workspace of a comparison, the latter zero and nil for none. Free, if there is
// one, ends what is not kept. Errors are not the binary's, but for a workspace that is too large.
func (p *problem) memory(b *binary, r wire.ParityRequest) (w *set, work *workspace, free func(), err error) {
	if r.Mapped == "" {
		if w, err = p.set(r.Shape, 0); err != nil {
			return nil, nil, nil, &ownError{err}
		}
		work, err = p.prepare(b, r.Geometry)
		return w, work, nil, err
	}
	if r.Mapped != wire.AtBegin && r.Mapped != wire.AtEnd {
		return nil, nil, nil, &ownError{fmt.Errorf("buffers cannot be mapped at %q, only at %q and %q", r.Mapped, wire.AtBegin, wire.AtEnd)}
	}
	free = func() {
		_ = p.sync() // nothing may be under way in what is unmapped
		if w != nil {
			w.free()
		}
		if work != nil {
			work.free()
		}
	}
	p.evict(p.bytes(r.Shape, every), p.unused())
	take := func() error {
		place := func(bytes int64) (block, error) { return mappedBlock(bytes, r.Mapped) }
		if w, err = p.newSet(r.Shape, place); err != nil {
			return err
		}
		if _, err := launches(r.Geometry); err != nil || r.Geometry.Workspace == 0 {
			return nil // the launch will say so
		}
		m, err := place(r.Geometry.Workspace)
		if err != nil {
			return err
		}
		g, err := newGuards([]block{m})
		if err != nil {
			m.free()
			return err
		}
		work = &workspace{m, g}
		return p.clear(work)
	}
	if err = take(); err != nil && p.evict(math.MaxInt64/2, p.unused()) {
		free()
		w, work = nil, nil
		err = take()
	}
	var e *driverError
	switch {
	case errors.As(err, &e) && !lost():
		err = &unmappedError{err}
	case err != nil:
		err = &ownError{err}
	}
	return w, work, free, err
}
