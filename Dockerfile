# The agent and its libraries, nothing else: docker build --build-arg REVISION=$(git rev-parse --short=9 HEAD) -t spoor/spoor .
FROM debian:trixie-slim AS build
# The versions are those of the Debian release above.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates clang cmake gcc libbpf-dev libc6-dev libcap-ng-dev libcurl4-openssl-dev libdw-dev libelf-dev libisal-dev \
        libjansson-dev libmicrohttpd-dev libprotobuf-c-dev libyaml-dev libzydis-dev linux-libc-dev ninja-build \
        pkg-config protobuf-c-compiler \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY CMakeLists.txt CMakePresets.json VERSION ./
COPY agent agent
COPY bpf bpf
COPY image image
ARG REVISION=""
RUN cmake --preset release -DREVISION="$REVISION" \
    && ninja -C build/release spoor \
    && image/rootfs.sh build/release/spoor /rootfs

FROM scratch
COPY --from=build /rootfs/ /
# Root, as Kubernetes gives capabilities to nobody else; the chart drops all but four of them.
USER 0:0
ENV PATH=/usr/bin
EXPOSE 9464
ENTRYPOINT ["/usr/bin/spoor"]
CMD ["agent"]
