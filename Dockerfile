# The image of the operator and of the node agent: two static binaries, and nothing else, run by nobody in particular.
# Without a command it is the agent, which takes the place of the readiness reporter where only an image is changed.
#
# The compiler runs on the builder's platform and cross-compiles, which is faster than emulating the target's.
FROM --platform=$BUILDPLATFORM golang:1.26.5@sha256:3aff6657219a4d9c14e27fb1d8976c49c29fddb70ba835014f477e1c70636647 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
# The toolchain is that of the image, whatever go.mod would fetch.
ENV CGO_ENABLED=0 GOTOOLCHAIN=local

WORKDIR /src
# Modules in a layer of their own: most builds change none.
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config/crd config/crd
COPY internal internal
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags grpcnotrace \
    -ldflags "-s -w -X github.com/nodegate/nodegate/internal/version.Version=$VERSION" \
    -o /out/ ./cmd/manager ./cmd/agent

FROM gcr.io/distroless/static:nonroot@sha256:f7f8f729987ad0fdf6b05eeeae94b26e6a0f613bdf46feea7fc40f7bd72953e6
ARG VERSION=unknown
LABEL org.opencontainers.image.title="nodegate" \
      org.opencontainers.image.description="Keeps pods off nodes that are not ready, by rules that say what ready means" \
      org.opencontainers.image.source="https://github.com/nodegate/nodegate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /out/manager /out/agent /
USER 65532:65532
ENTRYPOINT ["/agent"]
