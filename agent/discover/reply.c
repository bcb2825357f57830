#include "discover/reply.h"

#include "base/config.h"

#include <stdarg.h>
#include <stdio.h>

/* x509_vfy.h of OpenSSL; curl hands them on. */
#define VERIFY_NOT_YET_VALID 9
#define VERIFY_EXPIRED       10

static void say(struct request_failure *f, enum kubelet_why why, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct request_failure *f, enum kubelet_why why, const char *fmt, ...)
{
	va_list ap;

	f->why = why;
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

/* The certificate was seen and not believed. */
static void say_untrusted(const struct reply *r, struct request_failure *f)
{
	long verify = 0;

	(void)curl_easy_getinfo(r->easy, CURLINFO_SSL_VERIFYRESULT, &verify);
	if (verify == VERIFY_EXPIRED)
		say(f, KUBELET_TLS_EXPIRED, "TLS: its certificate has expired (%s)", r->error);
	else if (verify == VERIFY_NOT_YET_VALID)
		say(f, KUBELET_TLS_EXPIRED,
		    "TLS: its certificate is not valid yet; is this node's clock right? (%s)",
		    r->error);
	else if (strstr(r->error, "subject name"))
		say(f, KUBELET_TLS_NAME,
		    "TLS: its certificate is for another name (%s); kubelet.tls.server_name or "
		    "node.name must be one that is in it",
		    r->error);
	else if (r->trust == REQUEST_CA)
		say(f, KUBELET_TLS_CA,
		    "TLS: its certificate is not signed by the CA in %s (%s); kubelets sign their "
		    "own unless serverTLSBootstrap is set",
		    r->cfg->kubelet_tls_ca_file, r->error);
	else
		say(f, KUBELET_TLS_CA, "TLS: its certificate is not the node's own, %s (%s)",
		    r->cfg->kubelet_tls_node_cert, r->error);
}

/* The first line of a body, for people. */
static int excerpt(const struct reply *r)
{
	size_t n = 0;

	while (r->body && n < r->size && n < 160 && (unsigned char)r->body[n] >= ' ' &&
	       (unsigned char)r->body[n] < 0x7f)
		n++;
	return (int)n;
}

static void say_status(const struct reply *r, struct request_failure *f)
{
	const char *body = r->body ? r->body : "";
	long status = 0;

	(void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	switch (status) {
	case 200:
		return;
	case 401:
		say(f, KUBELET_UNAUTHORIZED,
		    "it answers 401 Unauthorized: the token in %s is not accepted (expired, or of "
		    "another cluster)",
		    r->cfg->kubelet_token_file);
		return;
	case 403:
		say(f, KUBELET_FORBIDDEN,
		    "it answers 403 Forbidden: the service account's ClusterRole lacks the rule "
		    "apiGroups [''] resources [nodes/pods] verbs [get] (before Kubernetes 1.33: "
		    "nodes/proxy): %.*s",
		    excerpt(r), body);
		return;
	default:
		say(f, KUBELET_HTTP, "it answers %ld: %.*s", status, excerpt(r), body);
	}
}

/* The connection, not the answer, is at fault. */
static void say_broken(const struct reply *r, struct request_failure *f)
{
	switch (r->result) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
		say(f, KUBELET_CONNECT, "it cannot be reached: %s", r->error);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		say(f, KUBELET_TIMEOUT, "no answer within kubelet.timeout (%llu ms): %s",
		    (unsigned long long)r->cfg->kubelet_timeout, r->error);
		break;
	case CURLE_PARTIAL_FILE:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
		if (r->size || r->result == CURLE_PARTIAL_FILE)
			say(f, KUBELET_TRUNCATED, "its answer is truncated after %zu bytes: %s",
			    r->size, r->error);
		else
			say(f, KUBELET_CONNECT,
			    "it has closed the connection without an answer: %s", r->error);
		break;
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, or no HTTP at all */
		say(f, KUBELET_HTTP, "its answer is no HTTP: %s", r->error);
		break;
	case CURLE_OUT_OF_MEMORY: /* or a head line beyond all measure */
		say(f, KUBELET_CONNECT, "%s", r->error);
		break;
	default:
		say(f, r->tls && r->size == 0 ? KUBELET_TLS : KUBELET_CONNECT, "%s", r->error);
	}
}

void reply_judge(const struct reply *r, struct request_failure *f)
{
	f->why = KUBELET_OK;
	f->text[0] = '\0';
	if (r->too_large || r->result == CURLE_FILESIZE_EXCEEDED)
		say(f, KUBELET_TOO_LARGE,
		    "the pod list is larger than kubelet.max_response (%llu bytes)",
		    (unsigned long long)r->cfg->kubelet_max_response);
	else if (r->result == CURLE_OK)
		say_status(r, f);
	else if (r->result == CURLE_PEER_FAILED_VERIFICATION)
		say_untrusted(r, f);
	else if (r->result == CURLE_SSL_CACERT_BADFILE)
		say(f, KUBELET_TLS_CA, "TLS: %s cannot be used to verify its certificate (%s)",
		    r->trust == REQUEST_CA ? r->cfg->kubelet_tls_ca_file
					   : r->cfg->kubelet_tls_node_cert,
		    r->error);
	else
		say_broken(r, f);
}
