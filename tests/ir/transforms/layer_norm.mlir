// RUN: vk-opt '--apply-plan{tiles="i=2" chunks="j=64" splits="j=2" sizes="N=1000","M=2"}' --verify-mapped %s | filecheck %s
// An axis split over programs: a launch a phase, each beginning with the partial results of the one before.

vk.kernel @layer_norm(%x: !vk.tensor<[M, N], f32>, %weight: !vk.tensor<[N], f32>, %eps: f64, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %n = arith.sitofp %N : i64 to f32
  %nb = vk.broadcast %n : f32 -> tensor<?xf32, #vk.axes<i>>
  %mean = arith.divf %sum, %nb : tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %mean : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %c = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %sq = arith.mulf %c, %c : tensor<?x?xf32, #vk.axes<i, j>>
  %ss = vk.sum %sq along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %n2 = arith.sitofp %N : i64 to f32
  %n2b = vk.broadcast %n2 : f32 -> tensor<?xf32, #vk.axes<i>>
  %var = arith.divf %ss, %n2b : tensor<?xf32, #vk.axes<i>>
  %e = arith.truncf %eps : f64 to f32
  %eb = vk.broadcast %e : f32 -> tensor<?xf32, #vk.axes<i>>
  %v = arith.addf %var, %eb : tensor<?xf32, #vk.axes<i>>
  %r = math.rsqrt %v : tensor<?xf32, #vk.axes<i>>
  %rb = vk.broadcast %r : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %y = arith.mulf %c, %rb : tensor<?x?xf32, #vk.axes<i, j>>
  %w = vk.load %weight[j] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<j>>
  %wb = vk.broadcast %w : tensor<?xf32, #vk.axes<j>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %z = arith.mulf %y, %wb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %z in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      vk.mapped @layer_norm
// CHECK:        %partial_sum = vk.buffer "partial_sum" [] : !vk.buffer<[1, 2, 2], f32>
// CHECK:        vk.launch "sum" over (%p_i = %{{.*}}, %p_j = %{{.*}}) {
// CHECK:          %sum = vk.sum
// CHECK-NEXT:     vk.store %sum in %partial_sum[%p_i, %p_j, i]
// CHECK:        vk.launch "ss" over
// CHECK:          scf.for
// CHECK-NEXT:       vk.load %partial_sum[%p_i{{.*}}, %{{.*}}, i]
// CHECK-NEXT:       arith.addf
// CHECK:          vk.store %ss in %partial_ss
// CHECK:        vk.launch "out" over
// CHECK:          vk.load %partial_sum
// CHECK:          vk.load %partial_ss
// CHECK-NOT:      partial
// CHECK:          vk.store {{.*}} in %out
