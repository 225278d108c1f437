//go:build linux && (nonvrtc || (!amd64 && !arm64))

package cuda

import "errors"

type nvrtcLibrary struct{ hello serverHello }

func loadNVRTC(string) (*nvrtcLibrary, error) {
	return nil, errors.New("this evotune was built without NVRTC")
}

func (*nvrtcLibrary) compile(serverRequest) serverAnswer { return serverAnswer{} }
