// SPDX-License-Identifier: MIT
//
// The steps of a layer of Qwen3.5 that has no attention: the gated delta rule (Yang et al. 2024, "Gated delta
// networks"). With h = norm(x):
//
//   m = Wqkv h       z = Wgate h       c = silu(conv(m)): each element by itself, over the last tokens
//   q, k, v = c      each head of q and k has length 1, and q is divided by the root of its size
//   for each head of values, S a matrix of keys by values that starts as 0, for each token:
//       S = exp(a softplus(alpha h + dt)) S           v' = sigmoid(beta h) (v - S^T k)
//       S = S + k v'^T                                o = S^T q
//   x = x + Wout (norm(o) * silu(z)): one vector of weights for all heads
//
// Value head j belongs to key head j mod (number of key heads).
#include <cmath>

#include "errors.hpp"
#include "graph.hpp"

namespace ref
{

namespace
{

double sigmoid(double x)
{
    return 1 / (1 + std::exp(-x));
}

double softplus(double x)
{
    return x > 30 ? x : std::log1p(std::exp(x));
}

Row unit(const double *x, std::size_t n, double eps)
{
    double sum = 0;
    for (std::size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    Row y(x, x + n);
    for (double &v : y)
        v /= std::max(std::sqrt(sum), eps);
    return y;
}

} // namespace

// The weights of one layer besides its linear ones.
struct Graph::Recurrent {
    Matrix alpha, beta, conv; // of h; conv has a row of taps for each element
    Row a, dt, norm;
};

static Row vector_of(const Gguf &file, const std::string &name, std::size_t n)
{
    Row v = dense_vector(file.tensor(name));
    if (v.size() != n) throw Malformed("tensor '" + name + "' has the wrong size");
    return v;
}

static Matrix matrix_of(const Gguf &file, const std::string &name, std::size_t rows, std::size_t columns)
{
    Matrix m(file.tensor(name));
    if (m.rows() != rows || m.columns() != columns)
        throw Malformed("tensor '" + name + "' has the wrong size");
    return m;
}

Step Graph::convolution_step(const std::string &blk, const std::string &prefix) const
{
    const std::size_t width = arch_.mixed(), taps = arch_.taps;
    const Matrix conv = matrix_of(file_, blk + "ssm_conv1d.weight", width, taps);
    return {
        prefix + "conv", {prefix + "mix"}, width, false, [conv, taps](const std::vector<const Table *> &in) {
            const Table &m = *in[0];
            Table y(m.rows, m.cols);
            for (std::size_t i = 0; i < y.cols; i++) {
                const Row w = conv.dense_row(i);
                for (std::size_t p = 0; p < y.rows; p++) {
                    double sum = 0;
                    for (std::size_t t = 0; t < taps; t++) // the last tap is of the token itself
                        if (p + t + 1 >= taps) sum += w[t] * m.at(p + t + 1 - taps)[i];
                    y.at(p)[i] = sum * sigmoid(sum);
                }
            }
            return y;
        }};
}

// All tokens of one head of values. q, k and v are its parts of a row of c.
void Graph::run_head(const Recurrent &w, std::size_t head, const Table &c, const Table &h, Table &out) const
{
    const std::size_t d = arch_.state_dim, n_keys = arch_.key_heads, each = arch_.value_heads / n_keys;
    const std::size_t key = options_.faults.grouped_heads ? head / each : head % n_keys;
    const Row alpha = w.alpha.dense_row(head), beta = w.beta.dense_row(head);
    std::vector<Row> state(d, Row(d, 0.0));
    for (std::size_t p = 0; p < c.rows; p++) {
        Row q = unit(c.at(p) + key * d, d, arch_.eps);
        const Row k = unit(c.at(p) + (n_keys + key) * d, d, arch_.eps);
        const double *v = c.at(p) + (2 * n_keys + head) * d;
        const double decay = std::exp(w.a[head] * softplus(dot(alpha, h.row(p)) + w.dt[head]));
        const double share = sigmoid(dot(beta, h.row(p)));
        for (double &x : q)
            x /= options_.faults.no_key_root ? 1 : std::sqrt(static_cast<double>(d));
        for (std::size_t j = 0; j < d; j++) {
            double predicted = 0, before = 0, o = 0;
            for (std::size_t i = 0; i < d; i++) {
                state[i][j] *= decay;
                predicted += state[i][j] * k[i];
                before += state[i][j] * q[i];
            }
            for (std::size_t i = 0; i < d; i++) {
                state[i][j] += k[i] * share * (v[j] - predicted);
                o += state[i][j] * q[i];
            }
            out.at(p)[head * d + j] = options_.faults.late_update ? before : o;
        }
    }
}

// Norms and gates of the heads of one position, in the order in which Wout takes them.
Row Graph::gate_heads(const Recurrent &w, const Row &o, const Row &z) const
{
    const std::size_t d = arch_.state_dim, n_keys = arch_.key_heads, each = arch_.value_heads / n_keys;
    Row y(o.size());
    for (std::size_t head = 0; head < arch_.value_heads; head++) {
        const Row normed = rmsnorm(Row(&o[head * d], &o[head * d] + d), w.norm, arch_.eps);
        // Transformed weights keep the value heads of a key head together.
        const bool together = hadamard_.grouped_heads() && !options_.faults.unordered_out;
        const std::size_t to = (together ? head % n_keys * each + head / n_keys : head) * d;
        for (std::size_t i = 0; i < d; i++)
            y[to + i] = normed[i] * z[head * d + i] * sigmoid(z[head * d + i]);
    }
    return y;
}

Step Graph::delta_step(const std::string &blk, const std::string &prefix) const
{
    const std::size_t n_heads = arch_.value_heads, inner = n_heads * arch_.state_dim;
    Recurrent w;
    w.alpha = matrix_of(file_, blk + "ssm_alpha.weight", n_heads, arch_.n_embd);
    w.beta = matrix_of(file_, blk + "ssm_beta.weight", n_heads, arch_.n_embd);
    w.a = vector_of(file_, blk + "ssm_a", n_heads);
    w.dt = vector_of(file_, blk + "ssm_dt.bias", n_heads);
    w.norm = vector_of(file_, blk + "ssm_norm.weight", arch_.state_dim);
    return {prefix + "attn_out",
            {prefix + "conv", prefix + "attn_norm", prefix + "z"},
            inner,
            false,
            [this, w](const std::vector<const Table *> &in) {
                const Table &c = *in[0], &h = *in[1], &z = *in[2];
                Table o(c.rows, z.cols);
                for (std::size_t head = 0; head < arch_.value_heads; head++)
                    run_head(w, head, c, h, o);
                for (std::size_t p = 0; p < o.rows; p++)
                    o.set_row(p, gate_heads(w, o.row(p), z.row(p)));
                return o;
            }};
}

void Graph::recurrent_half(std::vector<Step> &s, std::size_t layer, const std::string &x) const
{
    const std::string blk = "blk." + std::to_string(layer) + ".", L = "L" + std::to_string(layer) + ".";
    const std::size_t n = arch_.n_embd, inner = arch_.value_heads * arch_.state_dim;
    s.push_back(norm_step(blk + "attn_norm", L + "attn_norm", x, n));
    s.push_back(linear_step(blk + "attn_qkv", L + "mix", L + "attn_norm", arch_.mixed(), n));
    s.push_back(linear_step(blk + "attn_gate", L + "z", L + "attn_norm", inner, n));
    s.push_back(convolution_step(blk, L));
    s.push_back(delta_step(blk, L));
    s.push_back(linear_step(blk + "ssm_out", L + "attn_o", L + "attn_out", n, inner));
    s.push_back(sum_step(L + "attn_res", x, L + "attn_o", n));
}

} // namespace ref
