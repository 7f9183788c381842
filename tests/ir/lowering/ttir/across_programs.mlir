// RUN: vk-opt '--apply-plan{tiles="i=64","j=64" chunks="k=32" lanes=j multiples="M=64","N=64","K=32" distinct=true}' '--lower-to-ttir{resident_programs=2 stages=3}' %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=64","j=64" chunks="k=32" lanes=j multiples="M=64","N=64","K=32" distinct=true}' '--lower-to-ttir{resident_programs=2}' %s | filecheck %s --check-prefix ONE
// RUN: vk-opt '--apply-plan{tiles="i=64","j=64" chunks="k=32" lanes=j multiples="M=64","K=32" distinct=true}' '--lower-to-ttir{resident_programs=2 stages=3}' %s | filecheck %s --check-prefix ONE
// A persistent program's loop of dots goes on to the next program where loads are pipelined and all tiles are full:
// Triton then loads the next program's first chunks while this one's results are stored.

vk.kernel @matmul(%a: !vk.tensor<[M, K], f16>, %b: !vk.tensor<[K, N], f16>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], f16> -> tensor<?x?xf16, #vk.axes<i, k>>
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], f16> -> tensor<?x?xf16, #vk.axes<k, j>>
  %xf = arith.extf %x : tensor<?x?xf16, #vk.axes<i, k>> to tensor<?x?xf32, #vk.axes<i, k>>
  %yf = arith.extf %y : tensor<?x?xf16, #vk.axes<k, j>> to tensor<?x?xf32, #vk.axes<k, j>>
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, j>>
  %p = vk.dot %xf, %yf, %init along k precision ieee : tensor<?x?xf32, #vk.axes<i, k>>, tensor<?x?xf32, #vk.axes<k, j>>, tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %p in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      scf.for %{{.*}} to %programs step %{{.*}} : i32 {
// CHECK:        scf.for %k0 =
// CHECK:          "tt.dot"
// CHECK:        "tt.store"
// CHECK-NEXT: } {tt.flatten}

// ONE:     scf.for %{{.*}} to %programs step %{{.*}} : i32 {
// ONE-NOT: tt.flatten
