"""Versions of the modules that these programs need, by what they build with."""
OTEL = {
    # Go -> sdk, otelhttp
    "1.19": ("1.16.0", "0.42.0"),
    "1.22": ("1.28.0", "0.53.0"),
    "1.23": ("1.28.0", "0.53.0"),
    "1.26": ("1.47.0", "0.72.0"),
    "1.27": ("1.47.0", "0.72.0"),
}


def otel(go):
    sdk, http = OTEL[go]
    return (f"go.opentelemetry.io/otel@v{sdk}", f"go.opentelemetry.io/otel/sdk@v{sdk}", f"go.opentelemetry.io/otel/trace@v{sdk}",
            f"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp@v{sdk}",
            f"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp@v{http}")


def rpc(go):
    sdk, http = OTEL[go]
    grpc = {"1.23": "1.65.0", "1.26": "1.85.0"}[go]
    return (*otel(go)[:-1], f"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc@v{http}",
            f"google.golang.org/grpc@v{grpc}")


DATADOG = ("github.com/DataDog/dd-trace-go/v2@v2.12.0", "github.com/DataDog/dd-trace-go/contrib/net/http/v2@v2.12.0")
OTHERS = ("github.com/opentracing/opentracing-go@v1.2.0", "github.com/uber/jaeger-client-go@v2.30.0+incompatible",
          "github.com/getsentry/sentry-go@v0.50.0")
