// RUN: vk-opt '--apply-plan{tiles="i=16" chunks="j=16","e=32" online=j multiples="M=16","N=16" sizes="E=32" distinct=true gpu=true}' --verify-mapped %s | filecheck %s
// On a GPU the loop carries beside the result of a dot one sum in all, not one for each position in a chunk: threads
// hold what it carries. It is added up before the dot, on which a matrix unit may still work when the next chunk begins.

vk.kernel @weighted(%x: !vk.tensor<[M, N], f32>, %v: !vk.tensor<[N, E], f32>, %out: !vk.tensor<[M, E], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %E = vk.size E
  vk.whole e < %E
  %zero = arith.constant 0.0 : f32
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %p = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %value = vk.load %v[j, e] : !vk.tensor<[N, E], f32> -> tensor<?x?xf32, #vk.axes<j, e>>
  %none = vk.broadcast %zero : f32 -> tensor<?x?xf32, #vk.axes<i, e>>
  %dot = vk.dot %p, %value, %none along j precision ieee : tensor<?x?xf32, #vk.axes<i, j>>, tensor<?x?xf32, #vk.axes<j, e>>, tensor<?x?xf32, #vk.axes<i, e>>
  %sum = vk.sum %p along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, e>>
  %q = arith.divf %dot, %sb : tensor<?x?xf32, #vk.axes<i, e>>
  vk.store %q in %out[i, e] : !vk.tensor<[M, E], f32> <- tensor<?x?xf32, #vk.axes<i, e>>
}

// CHECK:      scf.for %j0 = {{.*}} -> (tensor<16xf32, {{.*}}>, tensor<16xf32, {{.*}}>, tensor<16x32xf32, {{.*}}>, tensor<16xf32, {{.*}}>) : i64 {
// CHECK:        %[[SUM:[0-9]+]] = vk.sum %{{.*}} along j : tensor<16x16xf32
// CHECK:        %[[MORE:[0-9]+]] = arith.addf %{{[0-9]+}}, %[[SUM]]
// CHECK:        vk.dot
// CHECK-NEXT:   scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[MORE]]
